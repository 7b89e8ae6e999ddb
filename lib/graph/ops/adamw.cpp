// SPDX-License-Identifier: Apache-2.0
// Adam with decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101, algorithm 2): Adam's update, applied after the
// parameter has decayed.
#include "graph/compiled.h"
#include "graph/ops/adam.h"
#include "graph/update_form.h"

namespace motley {

namespace {

const std::vector<OptimizerKey>& keys() {
  static const auto list = adam_keys<AdamW>("factor of learning rate times parameter that is subtracted from the parameter");
  return list;
}

Formula update_of(const AdamW& a) {
  const Optimizer adam(Adam{.beta1 = a.beta1, .beta2 = a.beta2, .epsilon = a.epsilon});
  const Value w = operand(7), decayed = w - learning_rate() * (a.weight_decay * w);
  return formula(apply(adam.update, [&](int k) { return k == 7 ? decayed : operand(k); }));
}

const Compiled kCompiled(formulas_of({AdamW{}, AdamW{.weight_decay = 0}}));

const OptimizerKind kKind("adamw", keys(), adam_like<AdamW>);

}  // namespace

Optimizer::Optimizer(const AdamW& a) : Optimizer(moments_of("adamw", a, keys())) {
  kind = "adamw";
  update = undecayed_update = update_of(a);
  if (a.decay == Decay::all) return;
  AdamW plain = a;
  plain.weight_decay = 0;
  undecayed_update = update_of(plain);
}

}  // namespace motley
