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

/// What surrounds the input of a window op: nothing (valid), as much as makes ceil(size / stride) outputs (same), or given sizes.
/// Padding is zero for convolutions, never counts in an average and never wins a maximum.
struct Padding {
  /// How the sizes are found.
  enum class Kind : std::uint8_t { valid, same, sizes };
  Kind kind = Kind::valid;  ///< how the sizes are found
  Index top = 0;            ///< rows before the first; for Kind::sizes, as the other three
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
/// Whose a layer's weight is, and what it starts from.
struct WeightOptions {
  std::string layer{};                                  ///< another layer, whose weight it shares; empty: its own
  InitialWeights initial = InitialWeights::he_uniform;  ///< of its own
  double deviation = 1;                                 ///< of InitialWeights::normal
};
/// Options of conv2d().
struct Conv2dOptions {
  Dim in{};                   ///< contracted; empty: the dim before the slid-over ones
  Dim out{};                  ///< the filters; takes the place of `in`
  std::array<Dim, 2> over{};  ///< slid over, rows first; empty: the last two
  Extent2 window{};           ///< extent of the window
  Extent2 stride{};           ///< steps from window to window
  Extent2 dilation{};         ///< steps from element to element of a window
  Padding padding{};          ///< none unless given
  Index groups = 1;           ///< divides `in` and `out` into so many groups; depthwise: as many as `in` has channels
  bool bias = true;           ///< whether `b[f]` is added
  WeightOptions weight{};     ///< where the weight comes from
  std::string name{};         ///< of the output; empty: `conv2d_<position>`
};
/// Options of conv_transpose2d().
struct ConvTranspose2dOptions {
  Dim in{};                   ///< contracted; empty: the dim before those that its windows are put over
  Dim out{};                  ///< the filters; takes the place of `in`
  std::array<Dim, 2> over{};  ///< what its windows are put over, rows first; empty: the last two
  Extent2 window{};           ///< extent of the window
  Extent2 stride{};           ///< steps from window to window
  Extent2 dilation{};         ///< steps from element to element of a window
  Padding padding{};          ///< what is cut off the result; same: what leaves stride times the rows and columns
  Extent2 output_padding{0};  ///< rows and columns more at the end; less than the stride or the dilation
  Index groups = 1;           ///< divides `in` and `out` into so many groups
  bool bias = true;           ///< whether `b[out]` is added
  WeightOptions weight{};     ///< where the weight comes from
  std::string name{};         ///< of the output; empty: `conv_transpose2d_<position>`
};
/// Options of max_pool2d() and avg_pool2d(); of global_avg_pool2d(): `over` and `name`.
struct Pool2dOptions {
  std::array<Dim, 2> over{};  ///< slid over, rows first; empty: the last two
  Extent2 window{};           ///< extent of the window
  Extent2 stride{0};          ///< steps from window to window; 0: the window
  Padding padding{};          ///< none unless given
  std::string name{};         ///< of the output; empty: `<op>_<position>`
};
/// How upsample2d() fills in.
enum class Upsampling : std::uint8_t { nearest, bilinear };
/// Options of upsample2d().
struct Upsample2dOptions {
  Index scale = 1;                        ///< so many rows and columns for each
  Upsampling mode = Upsampling::nearest;  ///< how they are filled in
  std::array<Dim, 2> over{};              ///< what grows, rows first; empty: the last two dims
  std::string name{};                     ///< of the output; empty: `upsample2d_<position>`
};
/// Options of dense().
struct DenseOptions {
  std::vector<Dim> in{};    ///< contracted; empty: all but the first dim and `keep`
  std::vector<Dim> out{};   ///< one or more; take the place of the first of `in`
  std::vector<Dim> keep{};  ///< instead of `in`: not contracted
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
  Dim of{};               ///< normalised per value of it; empty: the second dim
  double momentum = 0.1;  ///< part of a step's statistics in the running ones
  double epsilon = 1e-5;  ///< added to the variance
  /// Statistics of the samples that a rank has, as the layout cuts the first dim: no message, but another cut is another network.
  /// False: of the whole (micro-)batch whatever the cut.
  bool local = false;
  std::string name{};  ///< of the output; empty: `batch_norm_<position>`
};
/// Options of group_norm().
struct GroupNormOptions {
  Index groups = 1;       ///< of the values of `of`, one after the other; they divide it
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
  InitialWeights initial = InitialWeights::normal;  ///< he_uniform: of a fan-in of 1
  double deviation = 0.02;                          ///< of InitialWeights::normal
  std::string name{};                               ///< of the output; empty: `parameter_<position>`
};
/// Options of attention().
struct AttentionOptions {
  Dim heads{};          ///< how many heads; their number divides that of the features
  Dim over{};           ///< the positions; empty: the last dim but one
  bool causal = false;  ///< whether a position attends to those up to itself alone
  bool bias = true;     ///< whether query, key, value and output add a bias
  std::optional<Tensor>
      mask{};          ///< an input of x's dims without the features: positions where it is not above 0 are attended by none
  std::string name{};  ///< of the output; empty: `attention_<position>`
};
/// Options of ops that have no other option.
struct NameOption {
  std::string name{};  ///< of the output; empty: `<op>_<position>`
};
/// Options of softmax_cross_entropy().
struct CrossEntropyOptions {
  /// Part of each target that is spread evenly over all classes, the label's own too: at least 0, at most 1.
  double label_smoothing = 0;
  /// Elements with this label are 0 and have no gradient; mean() of the losses divides by the number of all other ones, wherever
  /// they are. It need not be a class. Between -2^24 and 2^24.
  std::optional<Index> ignore_index{};
  std::string name{};  ///< of the output; empty: `softmax_cross_entropy_<position>`
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
  Dim out{};           ///< takes the place of `in`: a dim has one size in the complete model
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
  Dim out{};           ///< the new dim, its size the number of tensors; comes second, after the batch
  std::string name{};  ///< of the output; empty: `stack_<position>`
};

/// Convolution: `y[n f p q]` = sum over c, r, s of `x[n c p*stride-padding+r*dilation ..] * w[f c r s]`, plus `b[f]`. Weight `[f c
/// r s]`. By groups a filter reads the channels of its group alone: its weight is `[f c/groups r s]`, and `out` is cut as `in` is
/// unless a rule says otherwise.
Tensor conv2d(const Tensor& x, const Conv2dOptions& options);
/// The other way: `y[n f p*stride-padding+r*dilation ..]` = sum over c, r, s of `x[n c p ..] * w[c f r s]`, plus `b[f]`; of p rows
/// it makes (p - 1) stride - padding + (window - 1) dilation + 1 + output_padding. Weight `[c f/groups r s]`, as PyTorch's.
Tensor conv_transpose2d(const Tensor& x, const ConvTranspose2dOptions& options);
/// The maximum of each window; padding never wins.
Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options);
/// The mean of each window; padding does not count.
Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options);
/// The mean over both slid-over dims, which the output does not have.
Tensor global_avg_pool2d(const Tensor& x, const Pool2dOptions& options = {});
/// `scale` times the rows and columns, each a copy of the nearest one of x, or between the two nearest by their distance: the
/// centre of row p is at (p + 0.5) / scale - 0.5 of x's, outside of x it is as x's edge (PyTorch's align_corners=False).
Tensor upsample2d(const Tensor& x, const Upsample2dOptions& options);
/// Matrix product: contracts `in`, makes `out`, keeps the other dims. Weight `[out..., in...]`, `in` in x's order, however listed.
Tensor dense(const Tensor& x, const DenseOptions& options);
/// Products of two tensors: contracts `over`; the other dims of both count a batch of products, and those of one alone are kept.
/// `a`'s dims in order, `b`'s own in the place of the first of `over`: `a[n heads i d], b[n heads j d]` over d is `y[n heads i j]`.
Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options);
/// max(x, 0)
Tensor relu(const Tensor& x, const NameOption& options = {});
/// 1 / (1 + exp(-x))
Tensor sigmoid(const Tensor& x, const NameOption& options = {});
/// Hyperbolic tangent.
Tensor tanh(const Tensor& x, const NameOption& options = {});
/// x where it is above 0, else exp(x) - 1.
Tensor elu(const Tensor& x, const NameOption& options = {});
/// x times the normal distribution's probability up to x, by erf.
Tensor gelu(const Tensor& x, const NameOption& options = {});
/// The same probability by a tanh: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), as GPT-2's and PyTorch's approximate="tanh".
Tensor gelu_tanh(const Tensor& x, const NameOption& options = {});
/// x / (1 + exp(-x))
Tensor silu(const Tensor& x, const NameOption& options = {});
/// min(max(x, 0), 6)
Tensor relu6(const Tensor& x, const NameOption& options = {});
/// x where it is above 0, else slope times x.
Tensor leaky_relu(const Tensor& x, const LeakyReluOptions& options = {});
/// x min(max(x + 3, 0), 6) / 6
Tensor hard_swish(const Tensor& x, const NameOption& options = {});
/// exp(x) / sum of exp(x) over one dim.
Tensor softmax(const Tensor& x, const SoftmaxOptions& options = {});
/// Rows of a weight (rows, out) by number: for each number of x, an input of DType::i32, that row. What is not below the number of
/// rows is an error when it is fed.
Tensor embedding(const Tensor& x, const EmbeddingOptions& options);
/// Multi-head self-attention of x (batch.., positions, features c) over the positions: q, k and v are dense layers of x, per head
/// of size d = c / heads. A position's y is the sum of v over all positions, weighted by the softmax of the products of its q and
/// their k, divided by the root of d; the heads' y go through one more dense layer. Parameters: NAME.query.weight, .key.weight,
/// .value.weight (heads, d, c), their biases (heads, d), NAME.out.weight (c, heads, d), NAME.out.bias (c). The dim d is called
/// head-HEADS. Products of q and k are not stored: memory grows with the positions, not with their square. A cut of the positions
/// cuts the queries, every rank then has all k and v; along d nothing is cut but the dense layers. A query whose keys are all
/// masked gets 0 of v.
Tensor attention(const Tensor& x, const AttentionOptions& options);
/// Norms: `y = (x - mean) / sqrt(variance + epsilon) * weight + bias`, mean and (biased) variance of the elements along some dims,
/// of the complete tensor whatever the cut. Weights start from 1, biases from 0. Here over `over`, the dims of weight and bias.
Tensor layer_norm(const Tensor& x, const LayerNormOptions& options = {});
/// `y = x / sqrt(mean of x^2 + epsilon) * weight`, weight over `over`.
Tensor rms_norm(const Tensor& x, const RmsNormOptions& options = {});
/// Per value of `of`, over the whole batch (a micro-batch with TrainingOptions::accumulate). An inference reads
/// `<name>.running_mean` and `.running_var` instead, which every training step moves by `momentum` towards its own (variance
/// unbiased). UserError from training(): a step has one element per value.
Tensor batch_norm(const Tensor& x, const BatchNormOptions& options = {});
/// Per element of the first dim and group of the values of `of`, over the other dims; weight and bias per value of `of`.
Tensor group_norm(const Tensor& x, const GroupNormOptions& options);
/// 0 with probability `rate`, else x / (1 - rate), drawn by seed, name, step and global index; of an inference x.
Tensor dropout(const Tensor& x, const DropoutOptions& options = {});
/// Element by element; the one of fewer dims is repeated along those that it lacks. The result has the other's dims.
Tensor mul(const Tensor& a, const Tensor& b, const NameOption& options = {});
/// Element by element; one has all dims, the others are repeated along those that they lack.
Tensor add(const Tensor& a, const Tensor& b, const NameOption& options = {});
/// Of any number of tensors, added in this order.
Tensor add(const std::vector<Tensor>& summands, const NameOption& options = {});
/// All dims but the first become the dim `into`, row-major.
Tensor flatten(const Tensor& x, const std::string& into, const NameOption& options = {});

/// @name Changes of shape
/// Dims that they make (sizes may be left 0) are cut like the dims they come from unless a rule says otherwise; those of concat()
/// and stack() are not cut without a rule.
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
/// over all others, 0 where there is none.
Tensor mean(const Tensor& x, const std::vector<Dim>& over = {}, const NameOption& options = {});

/// @name Losses
/// Labels are an input: a step's predictions do not depend on them.
/// @{
/// One loss per element of the logits without `over`. labels: i32, over the first dim of the logits, each in 0..size of `over` - 1.
Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& labels, const Dim& over, const CrossEntropyOptions& options = {});
/// One loss per element: `-y log(p) - (1 - y) log(1 - p)`, `p = 1 / (1 + exp(-x))` of the logit x, for a label y from 0 to 1
/// (PyTorch's binary_cross_entropy_with_logits). labels: floats, with the logits' dims.
Tensor binary_cross_entropy(const Tensor& logits, const Tensor& labels, const NameOption& options = {});
/// The mean over all elements of the square of x - label: a scalar. labels: floats, with x's dims.
Tensor mean_squared_error(const Tensor& x, const Tensor& labels, const NameOption& options = {});
/// @}

/// @}
}  // namespace motley
