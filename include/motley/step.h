// SPDX-License-Identifier: Apache-2.0
/// @file
/// What is run again and again.
#pragma once
#include <motley/formula.h>
#include <motley/graph.h>
#include <motley/learning_rate.h>

#include <memory>
#include <string>
#include <vector>

namespace motley {
/// @addtogroup network
/// @{

/// The parameters that weight decay takes from: all, or (weights) all but biases and those of norms. The op that declares a
/// parameter decides which it is.
enum class Decay : std::uint8_t { all, weights };

/// Stochastic gradient descent, as PyTorch's: `g' = g + weight_decay*w; v = momentum*v + g'` (v starts at 0); `w -=
/// learning_rate*v`; with nesterov `w -= learning_rate*(g' + momentum*v)`.
struct Sgd {
  double learning_rate = 0.01;  ///< step size of the update
  double momentum = 0.0;        ///< fraction of the previous update that is kept
  double weight_decay = 0.0;    ///< times the parameter, added to its gradient
  bool nesterov = false;        ///< whether the momentum looks ahead; needs one above 0
  Decay decay = Decay::all;     ///< whose decay
  bool operator==(const Sgd&) const = default;
};
/// Adam (Kingma and Ba, arXiv 1412.6980), as PyTorch's: `g' = g + weight_decay*w; m = beta1*m + (1-beta1)*g'; v = beta2*v +
/// (1-beta2)*g'^2`; `w -= learning_rate * m/(1-beta1^t) / (sqrt(v/(1-beta2^t)) + epsilon)` in step t.
struct Adam {
  double learning_rate = 1e-3;  ///< step size of the update
  double beta1 = 0.9;           ///< fraction of the mean gradient that is kept
  double beta2 = 0.999;         ///< fraction of the mean squared gradient that is kept
  double epsilon = 1e-8;        ///< added to the root
  double weight_decay = 0.0;    ///< times the parameter, added to its gradient
  Decay decay = Decay::all;     ///< whose decay
};
/// Adam with decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101), as PyTorch's: the gradient stays as it is, `w -=
/// learning_rate*weight_decay*w` besides.
struct AdamW {
  double learning_rate = 1e-3;  ///< step size of the update
  double beta1 = 0.9;           ///< fraction of the mean gradient that is kept
  double beta2 = 0.999;         ///< fraction of the mean squared gradient that is kept
  double epsilon = 1e-8;        ///< added to the root
  double weight_decay = 0.01;   ///< times learning rate and parameter, taken from the parameter
  Decay decay = Decay::all;     ///< whose decay
};
/// LAMB (You et al., arXiv 1904.00962, algorithm 2): m, v as Adam's of the plain gradient; `u = m/(1-beta1^t) /
/// (sqrt(v/(1-beta2^t)) + epsilon) + weight_decay*w`; `w -= learning_rate * r*u`, r the L2 norm of the complete parameter w divided
/// by that of its u, wherever their parts are; 1 where either is 0.
struct Lamb {
  double learning_rate = 1e-3;  ///< step size of the update
  double beta1 = 0.9;           ///< fraction of the mean gradient that is kept
  double beta2 = 0.999;         ///< fraction of the mean squared gradient that is kept
  double epsilon = 1e-6;        ///< added to the root
  double weight_decay = 0.01;   ///< times the parameter, added to what it moves by
  Decay decay = Decay::all;     ///< whose decay
};

/// How parameters are updated: any of the above. UserError: one of their values is not in its range (rates, decays and epsilon from
/// 0, a momentum to 1, beta1 and beta2 to below 1).
struct Optimizer {
  Optimizer(const Sgd& sgd = {});    ///< stochastic gradient descent
  Optimizer(const Adam& adam);       ///< Adam
  Optimizer(const AdamW& adamw);     ///< Adam, decoupled weight decay
  Optimizer(const Lamb& lamb);       ///< LAMB
  std::string kind{};                ///< "sgd", "adam", "adamw", "lamb"
  double learning_rate = 0;          ///< step size, before a schedule
  std::vector<std::string> slots{};  ///< what it keeps per parameter, 0 at the start: "velocity"
  Formula scalars{};                 ///< of the step's number, from 1: what the update needs besides; no code: nothing
  /// Scalars learning rate, factor of the gradient, those above; then gradient, slots, parameter -> slots, parameter. Where there
  /// is a direction -> slots alone.
  Formula update{};
  /// The scalars; then slots, parameter -> u, by which the parameter then moves: `w -= learning_rate * r*u`, r the norm of w by
  /// that of u, both of the complete parameter. No code: there is none.
  Formula direction{};
  Formula undecayed_update{};     ///< of parameters that do not decay (Decay)
  Formula undecayed_direction{};  ///< of the same
  bool operator==(const Optimizer&) const = default;
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
};

/// What an update reads when it runs: it decides nothing that is planned, so two steps that differ in it alone have one hash and
/// one plan.
struct UpdateScalars {
  double learning_rate = 0;  ///< of the optimizer
  RateSchedule schedule{};   ///< of the learning rate
  double clip_norm = 0;      ///< as TrainingOptions::clip_norm
  double average = 0;        ///< as TrainingOptions::average
};

struct Passes;  // lib/graph/passes.h: the graph as passes over named tensors, gradients and update included

/// A frozen copy of the graph with its gradients and update: the Graph may be destroyed.
class Step {
 public:
  std::vector<std::string> parameters() const;               ///< names, in the order of the ops
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
/// linear in sums and means over samples); a value of the options that a job's "train" may not have either.
Step training(const Tensor& loss, const Optimizer& optimizer, const TrainingOptions& options = {});
/// The same for the sum of several losses, each of which is reported (StepReport::losses). UserError: none of them is made of
/// another one.
Step training(const std::vector<Tensor>& losses, const Optimizer& optimizer, const TrainingOptions& options = {});
/// The forward passes of these outputs. storage: as TrainingOptions::storage.
Step inference(const std::vector<Tensor>& outputs, DType storage = DType::f32);

/// @}
}  // namespace motley
