// SPDX-License-Identifier: Apache-2.0
/// @file
/// What is run again and again.
#pragma once
#include <motley/graph.h>

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

struct Passes;  // lib/graph/passes.h: the graph as passes over named tensors, gradients and update included

/// A frozen copy of the graph with its gradients and update: the Graph may be destroyed.
class Step {
 public:
  std::vector<std::string> parameters() const;       ///< names, in the order of the ops
  std::uint64_t hash() const;                        ///< of everything that decides what is computed
  const Passes& passes() const { return *passes_; }  ///< for the planner

 private:
  friend Step training(const Tensor&, const Optimizer&);
  friend Step inference(const std::vector<Tensor>&);
  explicit Step(std::shared_ptr<const Passes> passes) : passes_(std::move(passes)) {}
  std::shared_ptr<const Passes> passes_;
};

/// Forward, gradients of every parameter that the loss depends on, update. UserError: the loss is not a scalar, or depends on no
/// parameter.
Step training(const Tensor& loss, const Optimizer& optimizer);
/// The forward passes of these outputs.
Step inference(const std::vector<Tensor>& outputs);

/// @}
}  // namespace motley
