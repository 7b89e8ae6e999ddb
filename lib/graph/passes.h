// SPDX-License-Identifier: Apache-2.0
// A Step as the planner sees it: named tensors and the passes that write them. An op declares its index roles once; forward and
// every gradient are passes over the same indices. Linear ops share one written tensor (several writers are added): a bias is the
// writer broadcast(b), a residual add has one writer per branch.
#pragma once
#include <motley/kernel_spec.h>
#include <motley/step.h>

#include <optional>
#include <string>
#include <vector>

namespace motley {

// seed: the loss's own gradient, always 1. key: i32, random per seed, tensor name, step and position along its first dim; drawn by
// the caller that feeds it. parameter: also a running statistic.
enum class TensorRole : std::uint8_t { input, label, seed, parameter, activation, gradient, parameter_gradient, key };

// Values that a parameter starts from. weight: He-uniform; bias: +-1 / sqrt(fan-in); normal: of StepTensor::deviation.
enum class Initial : std::uint8_t { weight, bias, zeros, ones, normal };

struct StepTensor {
  std::string name{};        // "image", "conv2d_1", "conv2d_1.weight", "conv2d_1.sum" (inner), "gradient of conv2d_1.weight"
  Shape shape{};             // the dims that rules refer to; a convolution weight's window dims are called "window-<dim>"
  DType dtype = DType::f32;  // f32: the plan's type, f32 or f64; bf16: in an f32 plan; f64: in every plan; i32
  TensorRole role = TensorRole::activation;
  std::string layer{};                   // the layer whose rules and place it follows; empty: inputs
  int of = -1;                           // of a gradient: its tensor; of a copy in bf16: its parameter. Laid out as that one
  Initial initial = Initial::weight;     // of a parameter
  double deviation = 0;                  // Initial::normal
  Index below = 0;                       // of an i32 input that names rows or classes: the numbers are 0..below-1; 0: any
  std::optional<Index> ignored{};        // a further number that is allowed
  int fed_from = -1;                     // has this input's values of all micro-batches, which its first dim counts
  std::string copy_of{};                 // of a copy in another type: the tensor whose own rules also apply to it
  bool decays = true;                    // of a parameter: Decay::weights applies to it too
  Index fan_in = 1;                      // of a parameter (graph/fan_in.h)
  std::vector<std::string> shared_by{};  // of a layer's weight: the other layers that read it
  bool frozen = false;                   // of a parameter: stays as it is, without a gradient (TrainingOptions::freeze)
};

// The type of its elements, if floats are `floats`.
inline DType dtype_of(const StepTensor& t, DType floats) {
  if (t.dtype == DType::bf16 && floats == DType::f64) return floats;
  return t.dtype == DType::f32 ? floats : t.dtype;
}

// One of a pass's indices. Operands name their dims by indices; an index that the written tensor does not have is reduced.
struct PassIndex {
  std::string name{};
  Index size = 0;
};
struct PassOperand {
  int tensor = -1;
  std::vector<int> indices{};  // one per dim of the tensor
  bool operator==(const PassOperand&) const = default;
};
// read = made / share * stride - before + tap * dilation
struct Window {
  int read = -1, made = -1, tap = -1;  // indices of the pass
  Index stride = 1, before = 0, dilation = 1;
  Index share = 1;  // so many consecutive made rows read the same: the filters of a group
};

// A change of shape: the row-major number over the `read` indices = the row-major number over the `made` ones + offset, where both
// exist. merge: read d1 d2, made flat; slice: read i, made j, offset its begin; pad and concat: a negative offset; stack: read
// none, made the new index, offset -position. A gradient's map is the inverse of the forward one. If the offset is not 0, there is
// at most one index on either side.
struct IndexMap {
  std::vector<int> read{}, made{};  // indices of the pass
  Index offset = 0;
};

// A mean over a rank's own part of an index: `terms`, which is read, ranges over the rank's part of `of`, which is written, and the
// scale is divided by the size of that part. So the result depends on the cut of `of`, which every pick has as the layout has it.
// `borders`: a pass that is not cut so (verify's unsharded network) computes the parts that begin there one by one. per_value:
// number of elements that each value along `terms` stands for; with n elements in all, the result is the unbiased n / (n - 1) times
// the mean. 0: the mean.
struct OwnPart {
  int of = -1, terms = -1;  // -1: no such mean
  std::vector<Index> borders{};
  Index per_value = 0;
};

struct Pass {
  std::string name{};  // "conv2d_2 forward", "conv2d_2 backward_data", ...
  std::string layer{};
  KernelOp op = KernelOp::map;
  PassKind kind = PassKind::forward;
  std::vector<PassIndex> indices{};
  std::vector<PassOperand> reads{};  // in the kernel's operand order
  PassOperand writes{};
  std::vector<Window> windows{};   // rows, columns; with groups also channels: c = f / (filters of a group) * (its channels) + tap
  std::vector<int> roles{};        // conv2d, pools: the pass's indices in the order n c h w f r s p q (-1: none); max_pool2d's
                                   // gradient has two more: rows and columns of x, as far as its windows reach; a convolution by
                                   // groups one: the channel in its group, which its weight has in the place of c
                                   // dense: none; an index of x, w and y is one of its batch
                                   // attention: queries, keys, the size of a head; all others of its operands are heads
  std::vector<int> whole{};        // indices that no pick may cut
  Formula formula{};               // of a map: operand k is reads[k], position i the pass's index i
  Combine combine = Combine::add;  // of several partial sums of the written tensor
  double scale = 1.0;
  bool causal = false;  // of attention, as KernelSpec's
  Index made = 0;       // of attention: which of its results this is; one kernel makes all those of equal reads and work on a rank
  OwnPart own{};
  bool all_samples = false;            // over the samples of all micro-batches: reads only labels, its first operand
  std::vector<IndexMap> index_maps{};  // a copy between shapes: reads[0] and the written tensor share the indices that no map names
};

// A formula of one tensor, element by element: the kernel or the sum that makes the tensor may apply it.
bool is_pointwise(const Pass& pass);
// A copy, or a sum of copies.
bool is_plain_map(const Pass& pass);
// The window over the channels of a convolution by groups; else none.
inline const Window* channel_window(const Pass& p) {
  return p.op == KernelOp::conv2d && p.windows.size() > 2 ? &p.windows[2] : nullptr;
}

// A dim that, without its own rule, is cut as another one: the boundaries of `of` (whose size is of_size there), scaled to `size`
// where shapes merge or split, moved by `shift` where elements are cut off or put before.
struct DerivedDim {
  std::string dim{}, of{};
  Index size = 0, of_size = 0, shift = 0;
  enum class Kind : std::uint8_t { scaled, shifted } kind = Kind::scaled;
};

// A parameter that no gradient changes: each of n consecutive micro-batches moves it by `momentum` of the distance towards its
// "gradient", the value that the step computed.
struct Statistic {
  int parameter = -1;
  double momentum = 0;
};

inline constexpr std::size_t kMostLosses = 24;  // of a step: they are sent in one control message

struct Passes {
  std::vector<StepTensor> tensors{};
  std::vector<Pass> passes{};              // in an order in which every tensor is complete before it is read
  std::vector<int> parameters{};           // tensors, statistics too
  std::vector<int> parameter_gradients{};  // of parameters[i], -1: it is frozen; empty for inference
  std::vector<Statistic> statistics{};     // of training
  std::vector<int> outputs{};              // one rank has all of each: the trained losses, or the outputs of an inference
  std::vector<DerivedDim> derived_dims{};  // in graph order
  Optimizer optimizer{};                   // without learning rate and decay, which are read when a step runs (Step::scalars)
  bool clips = false;                      // by the gradients' common norm
  bool averages = false;                   // each trained parameter has the slot kAverage in addition to the optimizer's
  Index accumulate = 1;                    // micro-batches of a step; all sizes are those of one micro-batch
  bool trains = false;
  int find(const std::string& tensor) const;        // -1: none
  const Statistic* statistic(int parameter) const;  // null: it is none (of an inference, any parameter)
  bool is_trained(int parameter) const;             // neither a statistic nor frozen
  std::vector<int> writers_of(int tensor) const;
  int logits() const;  // the first tensor that is compared with labels; -1: none
};

}  // namespace motley
