// SPDX-License-Identifier: Apache-2.0
// Adam with decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101, algorithm 2): Adam's update, applied after the
// parameter has decayed.
#include "graph/compiled.h"
#include "graph/ops/adam.h"
#include "graph/update_form.h"

namespace motley {

namespace {

const std::vector<OptimizerKey>& keys_of_adamw() {
  static const auto list = adam_keys<AdamW>("factor of learning rate times parameter that is subtracted from the parameter");
  return list;
}

Formula update_of(const AdamW& a) {
  const Value g = gradient_factor() * operand(5), w = operand(8), decayed = w - learning_rate() * (weight_decay() * w);
  const Value m = a.beta1 * operand(6) + (1 - a.beta1) * g, v = a.beta2 * operand(7) + (1 - a.beta2) * (g * g);
  return formula({m, v, decayed - learning_rate() * scalar(3) * (m / (scalar(4) * sqrt(v) + a.epsilon))});
}

const Compiled kAdamWCompiled(formulas_of({AdamW{}}));

const OptimizerKind kAdamWKind("adamw", keys_of_adamw(), adam_like<AdamW>);

}  // namespace

Optimizer::Optimizer(const AdamW& a) : Optimizer(moments_of("adamw", a, keys_of_adamw())) {
  kind = "adamw";
  update = update_of(a);
}

}  // namespace motley
