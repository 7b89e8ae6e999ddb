// SPDX-License-Identifier: Apache-2.0
/// @file
/// What is run again and again.
#pragma once
#include <motley/graph.h>
#include <motley/learning_rate.h>
#include <motley/optimizer.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace motley {
/// @addtogroup network
/// @{

/// Parameters that are updated with other numbers than the rest.
struct ParameterGroup {
  /// Which: a pattern over names of parameters, "layer1.*" or "*.bias", in which `*` stands for any text; "conv1" stands for all
  /// that is below it too, "conv1.weight". Of several groups that match a parameter the first one counts.
  std::string match{};
  double learning_rate_factor = 1;  ///< times the learning rate of the step
  /// In place of the optimizer's, also for parameters that its Decay leaves out. Empty: the optimizer's, as its Decay says.
  std::optional<double> weight_decay{};
  bool operator==(const ParameterGroup&) const = default;
};

/// What a training step does besides. Every field has a default.
struct TrainingOptions {
  RateSchedule schedule{};  ///< of the optimizer's learning rate
  /// Before the update all gradients are multiplied by min(1, clip_norm / (n + 1e-6)), n their common L2 norm before weight decay
  /// (as PyTorch's clip_grad_norm_). 0: they are not.
  double clip_norm = 0;
  /// The batch (the first dim of every input) goes through in so many micro-batches of one size, one after another: memory for one
  /// of them, the gradients of all. It must divide the batch. Gradients are added in f64 and rounded once.
  Index accumulate = 1;
  /// Above 0: every parameter has an exponential moving average besides, the slot "average": `a = average*a + (1-average)*w` after
  /// each step, the first step's w to begin with (as torch.optim.swa_utils.AveragedModel). Predictors run on it, files of weights
  /// hold it. Below 1.
  double average = 0;
  /// Of activations, their gradients and copies of weights, in memory and in messages: f32 or bf16, which devices with instructions
  /// for it also multiply in (sums in f32). Parameters and their gradients, optimizers, statistics, logits and losses stay f32. A
  /// plan in f64 stores all of them in f64.
  DType storage = DType::f32;
  /// Parameters that stay as they are (patterns as ParameterGroup::match): stored and saved as all others, but without gradient,
  /// optimizer slots, decay or average, and no part of clip_norm. Layers of which no gradient is needed get no backward pass. The
  /// running statistics of a frozen norm go on moving, as with PyTorch's requires_grad = False.
  std::vector<std::string> freeze{};
  std::vector<ParameterGroup> groups{};  ///< parameters with their own learning rate or decay
};

/// What an update reads when it runs: it decides nothing that is planned, so two steps that differ in it alone have one hash and
/// one plan.
struct UpdateScalars {
  double learning_rate = 0;              ///< of the optimizer
  RateSchedule schedule{};               ///< of the learning rate
  double clip_norm = 0;                  ///< as TrainingOptions::clip_norm
  double average = 0;                    ///< as TrainingOptions::average
  double weight_decay = 0;               ///< of the optimizer
  Decay decay = Decay::all;              ///< of the optimizer
  std::vector<ParameterGroup> groups{};  ///< as TrainingOptions::groups
};

struct Passes;  // lib/graph/passes.h: the graph as passes over named tensors, gradients and update included

/// A frozen copy of the graph with its gradients and update: the Graph may be destroyed.
class Step {
 public:
  std::vector<std::string> parameters() const;               ///< names, in the order of the ops; frozen ones too
  std::uint64_t hash() const;                                ///< of everything that is planned: what is computed, but for scalars()
  const UpdateScalars& scalars() const { return scalars_; }  ///< read when the update runs
  const Passes& passes() const;                              ///< for the planner. UserError: it was moved from

 private:
  friend Step training(const std::vector<Tensor>&, const Optimizer&, const TrainingOptions&);
  friend Step inference(const std::vector<Tensor>&, DType);
  Step(std::shared_ptr<const Passes> passes, UpdateScalars scalars) : passes_(std::move(passes)), scalars_(std::move(scalars)) {}
  std::shared_ptr<const Passes> passes_;
  UpdateScalars scalars_;
};

/// Forward, gradients of every parameter that the loss depends on, update. UserError: the loss is not a scalar, or depends on no
/// parameter; micro-batches that do not divide the batch, or whose losses do not add up to the batch's (they do if the loss is
/// linear in sums and means over samples); a pattern that no parameter matches, all parameters frozen; a value of the options that
/// a job's "train" may not have either.
Step training(const Tensor& loss, const Optimizer& optimizer, const TrainingOptions& options = {});
/// The same for the sum of several losses, each of which is reported (StepReport::losses). UserError: none of them is made of
/// another one.
Step training(const std::vector<Tensor>& losses, const Optimizer& optimizer, const TrainingOptions& options = {});
/// The forward passes of these outputs. storage: as TrainingOptions::storage.
Step inference(const std::vector<Tensor>& outputs, DType storage = DType::f32);

/// @}
}  // namespace motley
