// SPDX-License-Identifier: Apache-2.0
// What is run again and again.
#pragma once
#include <motley/graph.h>

#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace motley {

// As PyTorch's: g' = g + weight_decay*w; v = momentum*v + g' (v starts 0); w -= learning_rate*v.
struct Sgd {
  double learning_rate = 0.01, momentum = 0.0, weight_decay = 0.0;
  bool operator==(const Sgd&) const = default;
};
using Optimizer = std::variant<Sgd>;

struct Passes;  // lib/graph/passes.h: the graph as passes over named tensors, gradients and update included

// Holds a frozen copy of the graph with its gradients and update: the Graph may die.
class Step {
 public:
  std::vector<std::string> parameters() const;
  std::uint64_t hash() const;  // of everything that decides what is computed
  const Passes& passes() const { return *passes_; }

 private:
  friend Step training(const Tensor&, const Optimizer&);
  friend Step inference(const std::vector<Tensor>&);
  explicit Step(std::shared_ptr<const Passes> passes) : passes_(std::move(passes)) {}
  std::shared_ptr<const Passes> passes_;
};

Step training(const Tensor& loss, const Optimizer& optimizer);  // UserError: loss is no scalar, nothing to train
Step inference(const std::vector<Tensor>& outputs);

}  // namespace motley
