// SPDX-License-Identifier: Apache-2.0
// Stochastic gradient descent with momentum: g' = factor g + weight_decay w; v = momentum v + g'; w -= learning_rate v.
#include "graph/compiled.h"
#include "graph/optimizers.h"

namespace motley {

namespace {

Formula update_of(double momentum, double weight_decay) {
  const Value g = operand(2), v = operand(3), w = operand(4);
  const Value velocity = momentum * v + (gradient_factor() * g + weight_decay * w);
  return formula({velocity, w - learning_rate() * velocity});
}

const Compiled kCompiled({update_of(0.5, 0.25), update_of(0.5, 0), update_of(0, 0.25), update_of(0, 0)});

const OptimizerKind kKind("sgd",
                          {{"momentum", "fraction of the previous update that is kept", Sgd{}.momentum, 1},
                           {"weight_decay", "times the parameter, added to its gradient", Sgd{}.weight_decay}},
                          [](double rate, const std::vector<double>& values) -> Optimizer {
                            return Sgd{.learning_rate = rate, .momentum = values[0], .weight_decay = values[1]};
                          });

}  // namespace

Optimizer::Optimizer(const Sgd& sgd)
    : kind("sgd"), learning_rate(sgd.learning_rate), slots{"velocity"}, update(update_of(sgd.momentum, sgd.weight_decay)) {}

}  // namespace motley
