// SPDX-License-Identifier: Apache-2.0
#include "graph/gradient_sum.h"

#include <cmath>

#include "graph/compiled.h"

namespace motley {

Formula add_gradient() {
  return formula({operand(0) + operand(1)});
}
Formula take_gradient() {
  return formula({0.0, operand(0)});
}
Formula square() {
  return formula({operand(0) * operand(0)});
}

Formula moved(double momentum) {
  return formula({(1 - momentum) * operand(1) + momentum * operand(0)});
}
Formula add_value(double momentum) {
  return formula({(1 - momentum) * operand(0) + momentum * operand(1)});
}
Formula moved_by_sum(double momentum, int values) {
  return formula({std::pow(1 - momentum, values) * operand(1) + operand(0)});
}

static const Compiled kSums({add_gradient(), take_gradient(), add_value(0.1)}, Width::f64);
static const Compiled kSquares({square(), moved(0.1), moved_by_sum(0.1, 2)});

}  // namespace motley
