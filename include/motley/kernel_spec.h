// SPDX-License-Identifier: Apache-2.0
/// @file
/// Plain data naming one local computation: the vocabulary shared by the profiler (times it), the cost model (looks it up) and the
/// backend (compiles it).
#pragma once
#include <motley/dims.h>
#include <motley/dtype.h>
#include <motley/formula.h>

#include <array>
#include <string>
#include <vector>

namespace motley {
/// @addtogroup kernels
/// @{

/// Kinds of kernels. map: a formula of scalars at every position, and reductions of it. attention: for every query the mean of the
/// values, weighted by the softmax of the query's products with the keys.
enum class KernelOp : std::uint8_t { conv2d, dense, max_pool2d, avg_pool2d, map, attention };
/// Which of an op's computations: the result, the gradient of its input, the gradient of its weight.
enum class PassKind : std::uint8_t { forward, backward_data, backward_filter };
/// How a map's values are combined into its result.
enum class Combine : std::uint8_t { set, add, max };

/// Extents of the op's index roles, by letter. conv2d and pools: `x[n c h w], w[f c r s], y[n f p q]` (pools: `y[n c p q]`). dense:
/// `x[n c], w[f c], y[n f]`. With `g`, that many contractions side by side: grouped conv2d `x[n gc h w], w[gf c r s], y[n gf p q]`,
/// where c and f are counts per group, and gc and gf are one dim each, group after group (depthwise: c = 1); batched dense
/// `x[g n c], w[g f c], y[g n f]`. attention: `q[g n c], k[g f c], v[g f c], y[g n c]`, or with `heads` side by side. Any extent
/// may be 0.
struct Roles {
  Index n = 1;  ///< samples, queries
  Index c = 1;  ///< input channels, the size of a head
  Index h = 1;  ///< input rows
  Index w = 1;  ///< input columns
  Index f = 1;  ///< filters, keys
  Index r = 1;  ///< window rows
  Index s = 1;  ///< window columns
  Index p = 1;  ///< output rows
  Index q = 1;  ///< output columns
  Index g = 1;  ///< groups (conv2d), batch of products (dense), heads of all samples (attention)
  auto operator<=>(const Roles&) const = default;
};

/// One operand of a map.
struct MapOperand {
  DType dtype = DType::f32;      ///< of its elements
  std::vector<Index> strides{};  ///< in elements, one per extent of the map; 0: the operand does not have that index
  auto operator<=>(const MapOperand&) const = default;
};

/// One local computation. Operands of Kernel::run(), the result last:
///
///     conv2d, dense  forward          x, w, [b,] y      y = epilogue(conv(x, w) + b); accumulate: epilogue(y + conv(x, w) + b)
///                    backward_data    dy, w, dx
///                    backward_filter  x, dy, dw
///     max_pool2d     forward          x, y              the first element in row-major order wins a tie, a NaN wins over all,
///                                                       padding never wins
///                    backward_data    dy, x, dx         the winner is found again from x; all of dx is written
///     avg_pool2d     forward          x, y              mean over the window's real elements (padding does not count)
///                    backward_data    dy, dx
///     map            forward          summands, further operands, results
///     attention      forward          q, k, v, [m,] [y,] [lse]
///                    backward_data    q, k, v, dy, lse, dot, [m,] [dq,] [dk,] [dv]
///
/// attention: s = scale * q k^T; y[i] = sum over j of exp(s[i j] - lse[i]) v[j], lse[i] = log of the sum over j of exp(s[i j]). The
/// sums are over the keys that count: with `causal` those up to the query's own position, with a mask `m[g/share f]` those whose
/// value is above 0. For a query without such keys y is 0 and lse `kNoKey`. The gradient computes the weights w again: dv = w^T dy,
/// ds = w * (dy v^T - dot) * scale, dq = ds k, dk = ds^T q, where `dot[g n]` is the sum over c of dy * y.
///
/// Conv and pool rows: `y[p]` reads `x[p*stride[0] - padding[0] + r*dilation[0]]` where that is in 0..h-1; columns likewise with
/// `[1]` and `padding[2]`. padding = top, bottom, left, right; a negative value means that x has rows on that side that no window
/// covers.
///
/// Pools: `halo` = top, bottom, left, right counts the rows and columns of the complete x that these windows cover but this shard
/// does not have. A mean counts them in its divisor; a maximum is over the shard's elements only (-infinity if the window has none
/// of these, but some in the halo). In max_pool2d's gradient x includes the halo (its extents are h and w plus the halo) and dx
/// does not: the dy of a winner in the halo is added elsewhere.
///
/// Results are overwritten, except that of an accumulating convolution. Operands do not overlap, except that a map may write onto
/// an operand of the same strides.
struct KernelSpec {
  KernelOp op = KernelOp::conv2d;     ///< kind of kernel
  PassKind pass = PassKind::forward;  ///< which of the op's computations
  /// Of every float operand. f64: by the reference and f64_backend() only. bf16 (no map): for storage only; a bias and attention's
  /// mask, lse and dot are f32; sums are of f32 at least.
  DType dtype = DType::f32;
  DType result = DType::f32;  ///< of a bf16 contraction's result: f32 or bf16; of bf16 attention's results except lse; else f32
  Roles roles{};              ///< extents
  std::array<Index, 2> stride{1, 1};         ///< rows, columns
  std::array<Index, 2> dilation{1, 1};       ///< rows, columns
  std::array<Index, 4> padding{0, 0, 0, 0};  ///< top, bottom, left, right
  std::array<Index, 4> halo{0, 0, 0, 0};     ///< of pools
  Format x_format = Format::plain;           ///< of x and dx (conv2d, pools)
  Format w_format = Format::plain;           ///< of w and dw (conv2d)
  Format y_format = Format::plain;           ///< of y and dy (conv2d, pools)
  bool bias = false;                         ///< conv2d, dense of g = 1, forward: operand `b[gf]`, f32/f64 dense
  bool accumulate = false;                   ///< conv2d forward: the result is added to y
  Formula epilogue{};                        ///< a formula of one operand, applied to the result: conv2d, dense forward
  /// map: result[...] combine= formula(operands[...]) over all of `extents`. Registers are f64 if `dtype` is, or if a result that
  /// reduces nothing is; else f32 (on the reference backend f64). One result may have stride 0 along some indices: these are
  /// reduced (combine add or max, in f64 before one rounding, in an order that follows from the spec, starting from 0 or
  /// -infinity). What is stored is multiplied by `scale`, in f64.
  Formula formula{};
  /// The formula's operand 0 is the sum ((+0 + t0) + t1) + ... of the first `summands` operands (any number), in f64 and rounded
  /// once (for two: the same bits as one addition); 1: the first operand itself; 0: the value 0. The formula's operand k is the
  /// k-th one after them.
  Index summands = 1;
  Combine combine = Combine::set;      ///< of a map
  double scale = 1.0;                  ///< of a map with one result, of attention
  std::vector<Index> extents{};        ///< of a map, outer to inner
  std::vector<MapOperand> operands{};  ///< of a map, results last
  /// Global index of the first element along each extent, if the formula reads positions; causal attention: of the first query and
  /// the first key. Otherwise empty.
  std::vector<Index> origin{};
  Index whole = 0;      ///< a map that is one block of a map of so many elements whose results are not read soon; 0: not a block
  bool causal = false;  ///< attention: no key after the query's own position counts
  Index share = 0;      ///< attention: so many consecutive g share one row of the mask; 0: there is no mask
  Index made = 0;       ///< attention: which results are computed: the sum of 1 for the first, 2 for the second, 4 for the third
  Index heads = 1;      ///< attention: so many consecutive g are side by side in memory: `q[g/heads n heads c]`, and so are all
                        ///< operands with a c; lse and dot stay `[g n]`
  bool operator==(const KernelSpec&) const = default;
};

std::size_t hash_of(const KernelSpec& spec);  ///< Equal for equal specs.
double flops(const KernelSpec& spec);         ///< Multiply-adds count 2; map: one per element and operand; attention: its products.
Index bytes_touched(const KernelSpec& spec);  ///< Operands read + result written, each once.
std::string summary(const KernelSpec& spec);  ///< Short and informative: "conv2d forward n32 c60 28x28 -> f120 5x5 channels_last".
std::string to_json(const KernelSpec& spec);  ///< One object; only what differs from the defaults, keys in declaration order.
int operand_count(const KernelSpec& spec);    ///< Operands of Kernel::run(), including the result.

/// The strides of a dense shard's dims, in elements.
std::vector<Index> strides_of(Format format, const std::vector<Index>& extents);

/// The log-sum-exp of a query without any key that counts: exp(s - kNoKey) is 0 for any s.
inline constexpr double kNoKey = 0x1p100;

/// @}
}  // namespace motley
