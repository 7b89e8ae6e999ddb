// SPDX-License-Identifier: Apache-2.0
// Adam (Kingma and Ba, arXiv 1412.6980, algorithm 1), its weight decay added to the gradient.
#include <cmath>

#include "graph/compiled.h"
#include "graph/ops/adam.h"
#include "graph/update_form.h"

namespace motley {

namespace {

const std::vector<OptimizerKey>& keys_of_adam() {
  static const auto list = adam_keys<Adam>("factor of the parameter that is added to its gradient");
  return list;
}

// 1 / (1 - beta1^t), 1 / sqrt(1 - beta2^t)
Formula scalars_of(double beta1, double beta2) {
  const Value t = operand(0);
  return formula({1.0 / (0.0 - expm1(t * std::log(beta1))), 1.0 / sqrt(0.0 - expm1(t * std::log(beta2)))});
}

Formula update_of(const Adam& a) {
  const Value mean_correction = scalar(3), root_correction = scalar(4), w = operand(8);
  const Value g = gradient_factor() * operand(5) + weight_decay() * w;
  const Value m = a.beta1 * operand(6) + (1 - a.beta1) * g, v = a.beta2 * operand(7) + (1 - a.beta2) * (g * g);
  return formula({m, v, w - learning_rate() * mean_correction * (m / (root_correction * sqrt(v) + a.epsilon))});
}

const Compiled kAdamCompiled(formulas_of({Adam{}}));

const OptimizerKind kAdamKind("adam", keys_of_adam(), adam_like<Adam>);

}  // namespace

Optimizer::Optimizer(const Adam& adam)
    : kind("adam"),
      learning_rate(adam.learning_rate),
      weight_decay(adam.weight_decay),
      decay(adam.decay),
      slots{"mean", "square"},
      scalars(scalars_of(adam.beta1, adam.beta2)),
      update(update_of(adam)) {
  check_adam_values(kind, adam, keys_of_adam());
}

}  // namespace motley
