// SPDX-License-Identifier: Apache-2.0
// Stochastic gradient descent with momentum: g' = factor g + weight_decay w; v = momentum v + g'; w -= learning_rate v.
#include "graph/update.h"

#include "graph/compiled.h"

namespace motley {

namespace {

Formula formula_of(double momentum, double weight_decay) {
  const Value rate = operand(0), factor = operand(1), g = operand(2), v = operand(3), w = operand(4);
  const Value velocity = momentum * v + (factor * g + weight_decay * w);
  return formula({velocity, w - rate * velocity});
}

const Compiled kCompiled({formula_of(0.5, 0.25), formula_of(0.5, 0), formula_of(0, 0.25), formula_of(0, 0)});

}  // namespace

Formula update_of(const Sgd& sgd) {
  return formula_of(sgd.momentum, sgd.weight_decay);
}

}  // namespace motley
