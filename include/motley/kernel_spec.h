// SPDX-License-Identifier: Apache-2.0
/// @file
/// Plain data naming one local computation: the one vocabulary of profiler (times it), cost model (looks it up) and
/// backend (compiles it).
#pragma once
#include <motley/dims.h>
#include <motley/dtype.h>

#include <array>
#include <string>
#include <vector>

namespace motley {
/// @addtogroup kernels
/// @{

/// Kinds of kernels. fold: pointwise functions and reductions; sgd: the optimizer's update; accumulate: gradients of micro-batches.
enum class KernelOp : std::uint8_t { conv2d, dense, max_pool2d, avg_pool2d, fold, sgd, accumulate };
/// Which of an op's computations: the result, the gradient of its input, the gradient of its weight.
enum class PassKind : std::uint8_t { forward, backward_data, backward_filter };
/// Pointwise functions that follow another computation.
enum class Activation : std::uint8_t { none, relu, sigmoid, tanh, elu };

/// Pointwise functions over the fold's extents. Operands in this order, then the result:
enum class FoldKind : std::uint8_t {
  copy,                 ///< `x -> x`
  add,                  ///< `t0, t1, ... -> activation(((+0 + t0) + t1) + ...)`, any number of operands
  activation,           ///< `x -> activation(x)`
  activation_gradient,  ///< `dy, y -> dy * activation'(x)`, computed from y
  // class: first_class + (index in the class dim). The label's own exp stays out of s: where it is all but 1, s keeps its digits.
  sum_exp,           ///< `l, m, label(i32) -> exp(l - m)` where class != label, else 0
  pick_label,        ///< `l, label(i32) -> l` where class == label, else 0
  cross_entropy,     ///< `m, s, h -> log(exp(h - m) + s) + m - h`
  softmax_gradient,  ///< `l, m, s, h, label(i32), g -> (class == label ? -s : exp(l - m)) / (exp(h - m) + s) * g`
  square             ///< `x -> x*x`
};
/// How a fold's values meet in its result.
enum class Combine : std::uint8_t { set, add, max };

/// Extents of the op's index roles, by letter. conv2d and pools: `x[n c h w], w[f c r s], y[n f p q]` (pools: `y[n c p q]`).
/// dense: `x[n c], w[f c], y[n f]`. `g` such contractions side by side: conv2d by groups `x[n gc h w], w[gf c r s], y[n gf p q]`,
/// where c and f are those of one group and gc, gf one dim each, group after group; a depthwise one has c = 1. dense by batch
/// `x[g n c], w[g f c], y[g n f]`. Any extent may be 0.
struct Roles {
  Index n = 1;  ///< samples
  Index c = 1;  ///< input channels
  Index h = 1;  ///< input rows
  Index w = 1;  ///< input columns
  Index f = 1;  ///< filters
  Index r = 1;  ///< window rows
  Index s = 1;  ///< window columns
  Index p = 1;  ///< output rows
  Index q = 1;  ///< output columns
  Index g = 1;  ///< groups (conv2d), batch of products (dense)
  auto operator<=>(const Roles&) const = default;
};

/// One operand of a fold.
struct FoldOperand {
  DType dtype = DType::f32;      ///< of its elements
  std::vector<Index> strides{};  ///< elements, one per fold extent; 0: the operand lacks that index
  auto operator<=>(const FoldOperand&) const = default;
};

/// One local computation. Operands of Kernel::run(), the result last:
///
///     conv2d, dense  forward          x, w, [b,] y      y = activation(conv(x, w) + b), or with accumulate activation(y + conv(x,
///     w) + b)
///                    backward_data    dy, w, dx
///                    backward_filter  x, dy, dw
///     max_pool2d     forward          x, y              the first element in row-major order wins a tie; padding never wins
///                    backward_data    dy, x, dx         the winner is found again from x; all of dx is written
///     avg_pool2d     forward          x, y              mean over the window's real elements (padding does not count)
///                    backward_data    dy, dx
///     fold           forward          as FoldKind says
///     sgd            forward          s, g, v, w        s = {learning rate, factor of g}, f64; g' = s[1]*g + weight_decay*w;
///                                                       v = momentum*v + g'; w -= s[0]*v, in place
///     accumulate     forward          g, a              a += g over roles.n elements, a in f64
///                    backward_data    a, g              g = a, rounded once; a = 0
///
/// Conv and pool rows: `y[p]` reads `x[p*stride[0] - padding[0] + r*dilation[0]]` where that is in 0..h-1; columns likewise with
/// `[1]` and `padding[2]`. padding = top, bottom, left, right; a negative one means x has rows that no window covers at that side.
///
/// Pools: the complete x has `halo` = top, bottom, left, right more real rows and columns that these windows cover and this shard
/// does not have. A mean divides by them too; a maximum takes the shard's elements only (none, but some in the halo: -infinity).
/// In max_pool2d's gradient x has the halo (its extents are h, w and the halo), dx not: a winner there takes its dy elsewhere.
///
/// Results are overwritten, but for an accumulating convolution's. Operands do not overlap, but a fold may write onto an operand of
/// the same strides.
struct KernelSpec {
  KernelOp op = KernelOp::conv2d;            ///< kind of kernel
  PassKind pass = PassKind::forward;         ///< which of the op's computations
  DType dtype = DType::f32;                  ///< of every float operand (storage, compute); f64 on the reference backend only
  Roles roles{};                             ///< extents
  std::array<Index, 2> stride{1, 1};         ///< rows, columns
  std::array<Index, 2> dilation{1, 1};       ///< rows, columns
  std::array<Index, 4> padding{0, 0, 0, 0};  ///< top, bottom, left, right
  std::array<Index, 4> halo{0, 0, 0, 0};     ///< of pools
  Format x_format = Format::plain;           ///< of x and dx (conv2d, pools)
  Format w_format = Format::plain;           ///< of w and dw (conv2d)
  Format y_format = Format::plain;           ///< of y and dy (conv2d, pools)
  bool bias = false;                         ///< conv2d, dense of g = 1, forward: operand `b[gf]`, f32/f64 dense
  bool accumulate = false;                   ///< conv2d forward: y is added to
  Activation activation = Activation::none;  ///< forward epilogue; of fold add, activation, activation_gradient
  /// fold: `result[...] combine= scale * f(operands[...])` over all of fold_extents. Where the result's stride is 0 the index is
  /// reduced (combine add or max; the result then starts from 0 or -infinity, sums run in index order and in f64 before one
  /// rounding); set with no reduced index.
  FoldKind fold = FoldKind::copy;
  Combine combine = Combine::set;       ///< of a fold
  double scale = 1.0;                   ///< of a fold
  std::vector<Index> fold_extents{};    ///< of a fold, outer to inner
  std::vector<FoldOperand> operands{};  ///< of a fold, result last
  int class_dim = -1;                   ///< which fold extent runs over classes (sum_exp, pick_label, softmax_gradient)
  Index first_class = 0;                ///< global index of that extent's 0
  double momentum = 0;                  ///< of sgd, over roles.n elements
  double weight_decay = 0;              ///< of sgd
  bool operator==(const KernelSpec&) const = default;
};

std::size_t hash_of(const KernelSpec& spec);  ///< Equal for equal specs.
double flops(const KernelSpec& spec);         ///< Multiply-adds count 2; fold and sgd: one per element and operand.
Index bytes_touched(const KernelSpec& spec);  ///< Operands read + result written, each once.
std::string summary(const KernelSpec& spec);  ///< Short and informative: "conv2d forward n32 c60 28x28 -> f120 5x5 channels_last".
std::string to_json(const KernelSpec& spec);  ///< One object; only what differs from the defaults, keys in declaration order.
int operand_count(const KernelSpec& spec);    ///< Of Kernel::run(), the result included.

/// The strides of a dense shard's dims, in elements.
std::vector<Index> strides_of(Format format, const std::vector<Index>& extents);

/// @}
}  // namespace motley
