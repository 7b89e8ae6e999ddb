// SPDX-License-Identifier: Apache-2.0
/// @file
/// What is run again and again.
#pragma once
#include <motley/graph.h>
#include <motley/learning_rate.h>

#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace motley {
/// @addtogroup network
/// @{

/// Stochastic gradient descent, as PyTorch's: `g' = g + weight_decay*w; v = momentum*v + g'` (v starts at 0); `w -=
/// learning_rate*v`.
struct Sgd {
  double learning_rate = 0.01;  ///< step size of the update
  double momentum = 0.0;        ///< fraction of the previous update that is kept
  double weight_decay = 0.0;    ///< times the parameter, added to its gradient
  bool operator==(const Sgd&) const = default;
};
using Optimizer = std::variant<Sgd>;  ///< How parameters are updated.

/// What a training step does besides. Every field has a default.
struct TrainingOptions {
  RateSchedule schedule{};  ///< of the optimizer's learning rate
  /// Before the update all gradients are multiplied by min(1, clip_norm / (n + 1e-6)), n their common L2 norm before weight decay
  /// (as PyTorch's clip_grad_norm_). 0: they are not.
  double clip_norm = 0;
  /// The batch (the first dim of every input) goes through in so many micro-batches of one size, one after another: memory for one
  /// of them, the gradients of all. It must divide the batch. Gradients are added in f64 and rounded once.
  Index accumulate = 1;
};

/// What an update reads when it runs: it decides nothing that is planned, so two steps that differ in it alone have one hash and
/// one plan.
struct UpdateScalars {
  double learning_rate = 0;  ///< of the optimizer
  RateSchedule schedule{};   ///< of the learning rate
  double clip_norm = 0;      ///< as TrainingOptions::clip_norm
};

struct Passes;  // lib/graph/passes.h: the graph as passes over named tensors, gradients and update included

/// A frozen copy of the graph with its gradients and update: the Graph may be destroyed.
class Step {
 public:
  std::vector<std::string> parameters() const;               ///< names, in the order of the ops
  std::uint64_t hash() const;                                ///< of everything that is planned: what is computed, but for scalars()
  const UpdateScalars& scalars() const { return scalars_; }  ///< read when the update runs
  const Passes& passes() const { return *passes_; }          ///< for the planner

 private:
  friend Step training(const std::vector<Tensor>&, const Optimizer&, const TrainingOptions&);
  friend Step inference(const std::vector<Tensor>&);
  Step(std::shared_ptr<const Passes> passes, UpdateScalars scalars) : passes_(std::move(passes)), scalars_(std::move(scalars)) {}
  std::shared_ptr<const Passes> passes_;
  UpdateScalars scalars_;
};

/// Forward, gradients of every parameter that the loss depends on, update. UserError: the loss is not a scalar, or depends on no
/// parameter; micro-batches that do not divide the batch.
Step training(const Tensor& loss, const Optimizer& optimizer, const TrainingOptions& options = {});
/// The same for the sum of several losses, each of which is reported (StepReport::losses). UserError: none of them is made of
/// another one.
Step training(const std::vector<Tensor>& losses, const Optimizer& optimizer, const TrainingOptions& options = {});
/// The forward passes of these outputs.
Step inference(const std::vector<Tensor>& outputs);

/// @}
}  // namespace motley
