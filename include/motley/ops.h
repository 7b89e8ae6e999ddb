// SPDX-License-Identifier: Apache-2.0
/// @file
/// The functions a model is written with. Each names its output (`.name`, or `<op>_<position>` counted over all op calls of the
/// graph) and its parameters `<name>.weight`, `<name>.bias`. Dims match by name. UserError: what does not fit, and what would.
#pragma once
#include <motley/graph.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace motley {
/// @addtogroup ops
/// @{

/// A number for both, or {rows, cols}.
struct Extent2 {
  Index rows = 1;  ///< along the first of the two dims
  Index cols = 1;  ///< along the second
  constexpr Extent2() = default;
  constexpr Extent2(Index both) : rows(both), cols(both) {}  ///< the same for both
  constexpr Extent2(Index r, Index c) : rows(r), cols(c) {}  ///< one for each
  bool operator==(const Extent2&) const = default;
};

/// What surrounds the input of a window op: nothing (valid), enough for ceil(size / stride) outputs (same), or given sizes.
/// Padding is zero for convolutions, never counts in an average and never wins a maximum.
struct Padding {
  /// How the sizes are found.
  enum class Kind : std::uint8_t { valid, same, sizes };
  Kind kind = Kind::valid;  ///< how the sizes are found
  Index top = 0;            ///< rows before the first; used with Kind::sizes, as the other three
  Index bottom = 0;         ///< rows after the last
  Index left = 0;           ///< columns before the first
  Index right = 0;          ///< columns after the last
  constexpr Padding() = default;
  constexpr explicit Padding(Kind k) : kind(k) {}                                                    ///< valid or same
  constexpr Padding(Index all) : kind(Kind::sizes), top(all), bottom(all), left(all), right(all) {}  ///< the same at each side
  /// {top, bottom}, {left, right}
  constexpr Padding(std::array<Index, 2> rows, std::array<Index, 2> cols)
      : kind(Kind::sizes), top(rows[0]), bottom(rows[1]), left(cols[0]), right(cols[1]) {}
  bool operator==(const Padding&) const = default;
};
inline constexpr Padding same{Padding::Kind::same};    ///< ceil(size / stride) outputs, the odd one at the end
inline constexpr Padding valid{Padding::Kind::valid};  ///< no padding

/// Values that a layer's weights start from.
enum class InitialWeights : std::uint8_t { he_uniform, normal, zeros, ones };
/// Where a layer's weight comes from (its own or another layer's), and its initial values.
struct WeightOptions {
  std::string layer{};                                  ///< the layer whose weight it shares; empty: a separate weight
  InitialWeights initial = InitialWeights::he_uniform;  ///< of a separate weight
  double deviation = 1;                                 ///< of InitialWeights::normal
};
/// Options of conv2d().
struct Conv2dOptions {
  Dim in{};                   ///< contracted; empty: the dim before those of `over`
  Dim out{};                  ///< the filters; takes the place of `in`
  std::array<Dim, 2> over{};  ///< that the window slides over, rows first; empty: the last two
  Extent2 window{};           ///< extent of the window
  Extent2 stride{};           ///< steps from window to window
  Extent2 dilation{};         ///< steps from element to element of a window
  Padding padding{};          ///< none unless given
  Index groups = 1;           ///< number of groups into which `in` and `out` are divided; depthwise: as many as `in` has channels
  bool bias = true;           ///< whether `b[f]` is added
  WeightOptions weight{};     ///< where the weight comes from
  std::string name{};         ///< of the output; empty: `conv2d_<position>`
};
/// Options of conv_transpose2d().
struct ConvTranspose2dOptions {
  Dim in{};                   ///< contracted; empty: the dim before those of `over`
  Dim out{};                  ///< the filters; takes the place of `in`
  std::array<Dim, 2> over{};  ///< along which the windows are placed, rows first; empty: the last two
  Extent2 window{};           ///< extent of the window
  Extent2 stride{};           ///< steps from window to window
  Extent2 dilation{};         ///< steps from element to element of a window
  Padding padding{};          ///< cut off the result; same: so that stride times the rows and columns remain
  Extent2 output_padding{0};  ///< additional rows and columns at the end; less than the stride or the dilation
  Index groups = 1;           ///< number of groups into which `in` and `out` are divided
  bool bias = true;           ///< whether `b[out]` is added
  WeightOptions weight{};     ///< where the weight comes from
  std::string name{};         ///< of the output; empty: `conv_transpose2d_<position>`
};
/// Options of max_pool2d() and avg_pool2d(); of global_avg_pool2d(): `over` and `name`.
struct Pool2dOptions {
  std::array<Dim, 2> over{};  ///< that the window slides over, rows first; empty: the last two
  Extent2 window{};           ///< extent of the window
  Extent2 stride{0};          ///< steps from window to window; 0: the window
  Padding padding{};          ///< none unless given
  std::string name{};         ///< of the output; empty: `<op>_<position>`
};
/// How upsample2d() fills in.
enum class Upsampling : std::uint8_t { nearest, bilinear };
/// Options of upsample2d().
struct Upsample2dOptions {
  Index scale = 1;                        ///< factor by which the rows and columns grow
  Upsampling mode = Upsampling::nearest;  ///< how they are filled in
  std::array<Dim, 2> over{};              ///< the dims that grow, rows first; empty: the last two dims
  std::string name{};                     ///< of the output; empty: `upsample2d_<position>`
};
/// Options of dense().
struct DenseOptions {
  std::vector<Dim> in{};    ///< contracted; empty: all but `keep`, or, where that is empty too, all but the first dim
  std::vector<Dim> out{};   ///< one or more; take the place of the first of `in`
  std::vector<Dim> keep{};  ///< alternative to `in`: the dims that are not contracted
  bool bias = true;         ///< whether `b[out]` is added
  WeightOptions weight{};   ///< where the weight comes from
  std::string name{};       ///< of the output; empty: `dense_<position>`
};
/// Options of matmul().
struct MatmulOptions {
  std::vector<Dim> over{};  ///< contracted: dims of both
  std::string name{};       ///< of the output; empty: `matmul_<position>`
};
/// Options of layer_norm().
struct LayerNormOptions {
  std::vector<Dim> over{};  ///< normalised together; empty: the last dim
  double epsilon = 1e-5;    ///< added to the variance
  std::string name{};       ///< of the output; empty: `layer_norm_<position>`
};
/// Options of rms_norm().
struct RmsNormOptions {
  std::vector<Dim> over{};                 ///< normalised together; empty: the last dim
  double epsilon = 1.1920928955078125e-7;  ///< added to the mean square; 2^-23, as PyTorch's in f32
  std::string name{};                      ///< of the output; empty: `rms_norm_<position>`
};
/// Options of batch_norm().
struct BatchNormOptions {
  Dim of{};               ///< each of its values is normalised separately; empty: the second dim
  double momentum = 0.1;  ///< weight of a step's statistics in the running ones
  double epsilon = 1e-5;  ///< added to the variance
  /// True: statistics over the samples that a rank has under the layout's cut of the first dim: no messages, but another cut is
  /// another network. False: over the whole (micro-)batch, whatever the cut.
  bool local = false;
  std::string name{};  ///< of the output; empty: `batch_norm_<position>`
};
/// Options of group_norm().
struct GroupNormOptions {
  Index groups = 1;       ///< number of groups of consecutive values of `of`; divides its size
  Dim of{};               ///< whose values are grouped; empty: the second dim
  double epsilon = 1e-5;  ///< added to the variance
  std::string name{};     ///< of the output; empty: `group_norm_<position>`
};
/// Options of dropout().
struct DropoutOptions {
  double rate = 0.5;   ///< probability that an element becomes 0; at least 0 and below 1
  std::string name{};  ///< of the output; empty: `dropout_<position>`
};
/// Options of softmax().
struct SoftmaxOptions {
  Dim over{};          ///< the dim whose elements add to 1; empty: the last
  std::string name{};  ///< of the output; empty: `softmax_<position>`
};
/// Options of leaky_relu().
struct LeakyReluOptions {
  double slope = 0.01;  ///< factor of negative values
  std::string name{};   ///< of the output; empty: `leaky_relu_<position>`
};
/// Options of embedding().
struct EmbeddingOptions {
  Dim rows{};                                               ///< the vocabulary: the numbers are 0..rows.size-1
  Dim out{};                                                ///< the features
  WeightOptions weight{.initial = InitialWeights::normal};  ///< where the weight comes from
  std::string name{};                                       ///< of the output; empty: `embedding_<position>`
};
/// Options of Graph::parameter().
struct ParameterOptions {
  /// he_uniform: by the fan-in of the first product that reads it, after renames, transposes and the like too; 1 if there is none.
  InitialWeights initial = InitialWeights::normal;
  double deviation = 0.02;  ///< of InitialWeights::normal
  std::string name{};       ///< of the output; empty: `parameter_<position>`
};
/// Options of attention().
struct AttentionOptions {
  Dim heads{};          ///< the heads; their number divides that of the features
  Dim over{};           ///< the positions; empty: the last dim but one
  bool causal = false;  ///< whether a position attends only to those up to itself
  bool bias = true;     ///< whether query, key, value and output add a bias
  std::optional<Tensor>
      mask{};          ///< an input with x's dims except the features; no position attends to those where it is not above 0
  std::string name{};  ///< of the output; empty: `attention_<position>`
};
/// Options of ops that have no other option.
struct NameOption {
  std::string name{};  ///< of the output; empty: `<op>_<position>`
};
/// Options of softmax_cross_entropy().
struct CrossEntropyOptions {
  /// Part of each target that is spread evenly over all classes, including the label's own: at least 0, at most 1.
  double label_smoothing = 0;
  /// Elements with this label have loss 0 and no gradient; mean() of the losses divides by the number of all other elements,
  /// wherever they are. The label need not be a class. Between -2^24 and 2^24.
  std::optional<Index> ignore_index{};
  std::string name{};  ///< of the output; empty: `softmax_cross_entropy_<position>`
};
/// Options of huber().
struct HuberOptions {
  double delta = 1;    ///< from this distance on the loss grows linearly; above 0
  std::string name{};  ///< of the output; empty: `huber_<position>`
};
/// Options of reshape().
struct ReshapeOptions {
  std::vector<Dim> in{};   ///< replaced; numbered row-major in this order
  std::vector<Dim> out{};  ///< take the place of the first of `in`; one size may be left open (0)
  std::string name{};      ///< of the output; empty: `reshape_<position>`
};
/// Options of slice().
struct SliceOptions {
  Dim in{};            ///< the dim that is sliced
  Range range{};       ///< the elements that stay: begin..end-1
  Dim out{};           ///< takes the place of `in` (a dim has one size in the complete model)
  std::string name{};  ///< of the output; empty: `slice_<position>`
};
/// Options of pad().
struct PadOptions {
  Dim in{};            ///< the dim that is padded
  Index before = 0;    ///< zeros before the first element
  Index after = 0;     ///< zeros after the last
  Dim out{};           ///< takes the place of `in`
  std::string name{};  ///< of the output; empty: `pad_<position>`
};
/// Options of concat().
struct ConcatOptions {
  std::vector<Dim> in{};  ///< one for all tensors, or one for each
  Dim out{};              ///< takes the place of `in`; its size is the sum of theirs
  std::string name{};     ///< of the output; empty: `concat_<position>`
};
/// Options of stack().
struct StackOptions {
  Dim out{};           ///< the new dim, its size the number of tensors; the second dim, after the batch
  std::string name{};  ///< of the output; empty: `stack_<position>`
};

/// Convolution: `y[n f p q]` = sum over c, r, s of `x[n c p*stride-padding+r*dilation ..] * w[f c r s]`, plus `b[f]`. Weight
/// `[f c r s]`. With groups a filter reads only the channels of its group: the weight is `[f c/groups r s]`, and `out` is cut as
/// `in` is unless a rule says otherwise.
Tensor conv2d(const Tensor& x, const Conv2dOptions& options);
/// The transpose of conv2d(): `y[n f p*stride-padding+r*dilation ..]` = sum over c, r, s of `x[n c p ..] * w[c f r s]`, plus
/// `b[f]`; p rows become (p - 1) stride - padding + (window - 1) dilation + 1 + output_padding. Weight `[c f/groups r s]`, as
/// PyTorch's.
Tensor conv_transpose2d(const Tensor& x, const ConvTranspose2dOptions& options);
/// The maximum of each window; padding never wins.
Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options);
/// The mean of each window; padding does not count.
Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options);
/// The mean over both dims of `over`, which the output does not have.
Tensor global_avg_pool2d(const Tensor& x, const Pool2dOptions& options = {});
/// `scale` times the rows and columns, each a copy of the nearest row (column) of x, or interpolated between the two nearest by
/// their distance: the centre of row p is at row (p + 0.5) / scale - 0.5 of x; beyond x's edge the edge's values hold (PyTorch's
/// align_corners=False).
Tensor upsample2d(const Tensor& x, const Upsample2dOptions& options);
/// Matrix product: contracts `in`, makes `out`, keeps the other dims. Weight `[out..., in...]`, `in` in x's order, however listed.
Tensor dense(const Tensor& x, const DenseOptions& options);
/// Products of two tensors: contracts `over`; the other dims that both have are batch dims, those of only one are kept. The result
/// has `a`'s dims in order, with `b`'s own dims in the place of the first of `over`: `a[n heads i d], b[n heads j d]` over d is
/// `y[n heads i j]`.
Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options);
/// max(x, 0)
Tensor relu(const Tensor& x, const NameOption& options = {});
/// 1 / (1 + exp(-x))
Tensor sigmoid(const Tensor& x, const NameOption& options = {});
/// Hyperbolic tangent.
Tensor tanh(const Tensor& x, const NameOption& options = {});
/// x where it is above 0, else exp(x) - 1.
Tensor elu(const Tensor& x, const NameOption& options = {});
/// x times the standard normal distribution function at x, by erf.
Tensor gelu(const Tensor& x, const NameOption& options = {});
/// As gelu(), approximated by a tanh: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), as GPT-2's and PyTorch's
/// approximate="tanh".
Tensor gelu_tanh(const Tensor& x, const NameOption& options = {});
/// x / (1 + exp(-x))
Tensor silu(const Tensor& x, const NameOption& options = {});
/// log(1 + exp(x)), at any x.
Tensor softplus(const Tensor& x, const NameOption& options = {});
/// min(max(x, 0), 6)
Tensor relu6(const Tensor& x, const NameOption& options = {});
/// x where it is above 0, else slope times x.
Tensor leaky_relu(const Tensor& x, const LeakyReluOptions& options = {});
/// x min(max(x + 3, 0), 6) / 6
Tensor hard_swish(const Tensor& x, const NameOption& options = {});
/// exp(x) / sum of exp(x) over one dim.
Tensor softmax(const Tensor& x, const SoftmaxOptions& options = {});
/// Rows of a weight (rows, out) by number: for each number in x, an input of DType::i32, the row with that number. A number that is
/// not below the number of rows is an error when it is fed.
Tensor embedding(const Tensor& x, const EmbeddingOptions& options);
/// Multi-head self-attention of x (batch.., positions, features c) over the positions: q, k and v are dense layers of x, per head
/// of size d = c / heads. A position's y is the sum of v over all positions, weighted by the softmax of the products of its q with
/// their k, divided by the root of d; the y of all heads go through one more dense layer. Parameters: NAME.query.weight,
/// .key.weight, .value.weight (heads, d, c), their biases (heads, d), NAME.out.weight (c, heads, d), NAME.out.bias (c). The dim d
/// is called head-HEADS. Products of q and k are not stored: memory grows with the positions, not with their square. If the
/// positions are cut, each rank has its part of the queries and all k and v; a cut of d applies only to the dense layers. A query
/// whose keys are all masked gets 0 in place of the sum of v.
Tensor attention(const Tensor& x, const AttentionOptions& options);
/// Norms: `y = (x - mean) / sqrt(variance + epsilon) * weight + bias`, with the mean and (biased) variance of the elements along
/// some dims, of the complete tensor whatever the cut. Weights start from 1, biases from 0. layer_norm: along the dims `over`,
/// which are also the dims of weight and bias.
Tensor layer_norm(const Tensor& x, const LayerNormOptions& options = {});
/// `y = x / sqrt(mean of x^2 + epsilon) * weight`; mean and weight are over `over`.
Tensor rms_norm(const Tensor& x, const RmsNormOptions& options = {});
/// Per value of `of`, over the whole batch (a micro-batch with TrainingOptions::accumulate). An inference reads
/// `<name>.running_mean` and `.running_var` instead, which every training step moves by `momentum` towards its own statistics (with
/// the unbiased variance). UserError from training(): a step has only one element per value.
Tensor batch_norm(const Tensor& x, const BatchNormOptions& options = {});
/// Per element of the first dim and group of the values of `of`, over the other dims; weight and bias per value of `of`.
Tensor group_norm(const Tensor& x, const GroupNormOptions& options);
/// 0 with probability `rate`, else x / (1 - rate), drawn by seed, name, step and global index; in an inference x.
Tensor dropout(const Tensor& x, const DropoutOptions& options = {});
/// Element by element; the tensor with fewer dims is repeated along those that it lacks. The result has the other tensor's dims.
Tensor mul(const Tensor& a, const Tensor& b, const NameOption& options = {});
/// Element by element; one tensor has all dims, the others are repeated along those that they lack.
Tensor add(const Tensor& a, const Tensor& b, const NameOption& options = {});
/// The sum of any number of tensors, added in this order.
Tensor add(const std::vector<Tensor>& summands, const NameOption& options = {});
/// @name Formulas of one's own
/// Element by element; one tensor has all dims, the others are repeated along those that they lack, and the result has its dims.
/// @{
/// The formula of x[0], x[1], ..., which it calls t0, t1, ...: `map("t0 * tanh(softplus(t0))", {x})`. `+ - * /`, numbers, `exp
/// expm1 log log1p sqrt tanh erf abs sigmoid softplus`, `max min pow` of two, `select(t0 < 0, a, b)` with `< <= > >= == !=`. Each
/// tensor must be read. Gradients are those of the formula as written, by the chain rule; that of a choice is the chosen value's.
/// max, min, abs, pow, sigmoid, softplus have gradients without infinities of their own: at a tie the first operand's, at 0 that of
/// abs is 0. At most 64 instructions, 16 tensors, 4096 characters, 64 parentheses inside each other. UserError: what is wrong, and
/// where in the text.
Tensor map(const std::string& formula, const std::vector<Tensor>& x, const NameOption& options = {});
/// e^x
Tensor exp(const Tensor& x, const NameOption& options = {});
/// The natural logarithm.
Tensor log(const Tensor& x, const NameOption& options = {});
/// log(1 + x), exact for small x.
Tensor log1p(const Tensor& x, const NameOption& options = {});
/// The square root.
Tensor sqrt(const Tensor& x, const NameOption& options = {});
/// |x|; the gradient at 0 is 0.
Tensor abs(const Tensor& x, const NameOption& options = {});
/// a - b
Tensor sub(const Tensor& a, const Tensor& b, const NameOption& options = {});
/// a / b
Tensor div(const Tensor& a, const Tensor& b, const NameOption& options = {});
/// The greater of both; where they are equal the gradient is a's.
Tensor max(const Tensor& a, const Tensor& b, const NameOption& options = {});
Tensor max(const Tensor& a, double b, const NameOption& options = {});  ///< with a number in the place of b
/// The smaller of both; where they are equal the gradient is a's.
Tensor min(const Tensor& a, const Tensor& b, const NameOption& options = {});
Tensor min(const Tensor& a, double b, const NameOption& options = {});  ///< with a number in the place of b
/// a^b for a from 0 on; gradients that are not finite at a = 0 are 0 there.
Tensor pow(const Tensor& a, const Tensor& b, const NameOption& options = {});
/// The same with a number; for whole b from -1024 to 1024 of any a.
Tensor pow(const Tensor& a, double b, const NameOption& options = {});
Tensor operator+(const Tensor& a, const Tensor& b);  ///< add()
Tensor operator-(const Tensor& a, const Tensor& b);  ///< sub()
Tensor operator*(const Tensor& a, const Tensor& b);  ///< mul()
Tensor operator/(const Tensor& a, const Tensor& b);  ///< div()
Tensor operator+(const Tensor& a, double b);         ///< each element + b
Tensor operator-(const Tensor& a, double b);         ///< each element - b
Tensor operator*(const Tensor& a, double b);         ///< each element * b
Tensor operator/(const Tensor& a, double b);         ///< each element / b
Tensor operator+(double a, const Tensor& b);         ///< a + each element
Tensor operator-(double a, const Tensor& b);         ///< a - each element
Tensor operator*(double a, const Tensor& b);         ///< a * each element
Tensor operator/(double a, const Tensor& b);         ///< a / each element
Tensor operator-(const Tensor& x);                   ///< each element's negative
/// @}
/// All dims but the first become the dim `into`, row-major.
Tensor flatten(const Tensor& x, const std::string& into, const NameOption& options = {});

/// @name Changes of shape
/// Dims that these ops make (sizes may be left 0) are cut like the dims they come from unless a rule says otherwise; the new dims
/// of concat() and stack() are not cut without a rule.
/// @{
/// Row-major over `in` = row-major over `out`: one dim split, several merged, or both.
Tensor reshape(const Tensor& x, const ReshapeOptions& options);
/// The same values under another dim name, so that other rules apply to them.
Tensor rename(const Tensor& x, const Dim& in, const Dim& out, const NameOption& options = {});
/// The same dims in another order; `order` names each of them once.
Tensor transpose(const Tensor& x, const std::vector<Dim>& order, const NameOption& options = {});
/// A range of one dim.
Tensor slice(const Tensor& x, const SliceOptions& options);
/// Zeros before and after one dim.
Tensor pad(const Tensor& x, const PadOptions& options);
/// One after the other along one dim; the other dims are equal.
Tensor concat(const std::vector<Tensor>& parts, const ConcatOptions& options);
/// Side by side along a new dim.
Tensor stack(const std::vector<Tensor>& parts, const StackOptions& options);
/// @}

/// The sum over these dims; empty: all dims, a scalar.
Tensor sum(const Tensor& x, const std::vector<Dim>& over = {}, const NameOption& options = {});
/// The mean over these dims; empty: all dims, a scalar. Of losses some of which are ignored (CrossEntropyOptions::ignore_index):
/// over all others, 0 if there are none; what another op has made of them (a change of shape, a sum) counts all.
Tensor mean(const Tensor& x, const std::vector<Dim>& over = {}, const NameOption& options = {});

/// @name Losses
/// Labels are an input: a step's predictions do not depend on them.
/// @{
/// One loss per element of the logits without `over`. labels: i32, with the logits' dims without `over`, or with the first of these
/// alone: one label for all elements of a sample. Each is in 0..size of `over` - 1.
Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& labels, const Dim& over, const CrossEntropyOptions& options = {});
/// One loss per element: `-y log(p) - (1 - y) log(1 - p)`, `p = 1 / (1 + exp(-x))` of the logit x, for a label y from 0 to 1
/// (PyTorch's binary_cross_entropy_with_logits). labels: floats, with the logits' dims.
Tensor binary_cross_entropy(const Tensor& logits, const Tensor& labels, const NameOption& options = {});
/// The mean over all elements of the square of x - label: a scalar. labels: floats, with x's dims.
Tensor mean_squared_error(const Tensor& x, const Tensor& labels, const NameOption& options = {});
/// The mean over all elements of |x - label| (PyTorch's l1_loss): a scalar. labels: floats, with x's dims.
Tensor mean_absolute_error(const Tensor& x, const Tensor& labels, const NameOption& options = {});
/// The mean over all elements of d^2 / 2 for d = |x - label| up to delta, delta (d - delta / 2) beyond (PyTorch's huber_loss): a
/// scalar. labels: floats, with x's dims.
Tensor huber(const Tensor& x, const Tensor& labels, const HuberOptions& options = {});
/// @}

/// @}
}  // namespace motley
