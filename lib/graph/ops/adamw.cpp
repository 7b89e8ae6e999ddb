// SPDX-License-Identifier: Apache-2.0
// Adam with decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101, algorithm 2): its update, on a parameter that has
// decayed first.
#include "graph/compiled.h"
#include "graph/optimizers.h"
#include "graph/update_form.h"

namespace motley {

namespace {

const std::vector<OptimizerKey>& keys() {
  static const std::vector<OptimizerKey> list{
      {"beta1", "fraction of the mean gradient that is kept", AdamW{}.beta1, 1, true},
      {"beta2", "fraction of the mean squared gradient that is kept", AdamW{}.beta2, 1, true},
      {"epsilon", "added to the root", AdamW{}.epsilon},
      {"weight_decay", "times learning rate and parameter, taken from the parameter", AdamW{}.weight_decay}};
  return list;
}

// The moments' part, of values that are right.
Adam adam_of(const AdamW& a) {
  check_values("adamw", a.learning_rate, keys(), {a.beta1, a.beta2, a.epsilon, a.weight_decay});
  return {.learning_rate = a.learning_rate, .beta1 = a.beta1, .beta2 = a.beta2, .epsilon = a.epsilon};
}

Formula update_of(const AdamW& a) {
  const Optimizer adam(Adam{.beta1 = a.beta1, .beta2 = a.beta2, .epsilon = a.epsilon});
  const Value w = operand(7), decayed = w - learning_rate() * (a.weight_decay * w);
  return formula(apply(adam.update, [&](int k) { return k == 7 ? decayed : operand(k); }));
}

const Compiled kCompiled(formulas_of({AdamW{}, AdamW{.weight_decay = 0}}));

const OptimizerKind kKind("adamw", keys(), [](double rate, const std::vector<double>& v, Decay decay) -> Optimizer {
  return AdamW{rate, v[0], v[1], v[2], v[3], decay};
});

}  // namespace

Optimizer::Optimizer(const AdamW& a) : Optimizer(adam_of(a)) {
  kind = "adamw";
  update = undecayed_update = update_of(a);
  if (a.decay == Decay::all) return;
  AdamW plain = a;
  plain.weight_decay = 0;
  undecayed_update = update_of(plain);
}

}  // namespace motley
