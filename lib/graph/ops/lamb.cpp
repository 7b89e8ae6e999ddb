// SPDX-License-Identifier: Apache-2.0
// LAMB (You et al., arXiv 1904.00962, algorithm 2): Adam's step, scaled to the length of the parameter.
#include "graph/compiled.h"
#include "graph/ops/adam.h"
#include "graph/update_form.h"

namespace motley {

namespace {

const std::vector<OptimizerKey>& keys() {
  static const auto list = adam_keys<Lamb>("factor of the parameter that is added to its update");
  return list;
}

// Scalars as Adam's: rate, factor of the gradient, 1 / (1 - beta1^t), 1 / sqrt(1 - beta2^t).
Formula slots_of(const Lamb& l) {  // g m v
  const Value g = gradient_factor() * operand(4);
  return formula({l.beta1 * operand(5) + (1 - l.beta1) * g, l.beta2 * operand(6) + (1 - l.beta2) * (g * g)});
}
Value direction_of(const Lamb& l, const Value& rise, const Value& root, const Value& m, const Value& v, const Value& w) {
  return rise * m / (root * sqrt(v) + l.epsilon) + l.weight_decay * w;
}
Formula direction_of(const Lamb& l) {  // m v w
  return formula({direction_of(l, scalar(2), scalar(3), operand(4), operand(5), operand(6))});
}

const Compiled kCompiled(formulas_of({Lamb{}, Lamb{.weight_decay = 0}}));

// The squares of parameter and direction; fuse makes their sums in one pass.
RowFormula squares_of(const Lamb& l) {  // w, Adam's last two scalars, m v
  const Value w = operand(0), length = direction_of(l, scalar(1), scalar(2), operand(3), operand(4), w);
  return {formula({w * w, length * length}), {}, true};
}
const Compiled kSquares({squares_of(Lamb{}), squares_of(Lamb{.weight_decay = 0})});

const OptimizerKind kKind("lamb", keys(), adam_like<Lamb>);

}  // namespace

Optimizer::Optimizer(const Lamb& l) : Optimizer(moments_of("lamb", l, keys())) {
  kind = "lamb";
  update = undecayed_update = slots_of(l);
  direction = undecayed_direction = direction_of(l);
  if (l.decay == Decay::all) return;
  Lamb plain = l;
  plain.weight_decay = 0;
  undecayed_direction = direction_of(plain);
}

}  // namespace motley
