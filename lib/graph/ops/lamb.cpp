// SPDX-License-Identifier: Apache-2.0
// LAMB (You et al., arXiv 1904.00962, algorithm 2): Adam's step, scaled to the length of the parameter.
#include <array>

#include "graph/compiled.h"
#include "graph/ops/adam.h"
#include "graph/update_form.h"

namespace motley {

namespace {

const std::vector<OptimizerKey>& keys_of_lamb() {
  static const auto list = adam_keys<Lamb>("factor of the parameter that is added to its update");
  return list;
}

// Scalars as Adam's: rate, factor of the gradient, decay, 1 / (1 - beta1^t), 1 / sqrt(1 - beta2^t).
Formula slots_of(const Lamb& l) {  // g m v
  const Value g = gradient_factor() * operand(5);
  return formula({l.beta1 * operand(6) + (1 - l.beta1) * g, l.beta2 * operand(7) + (1 - l.beta2) * (g * g)});
}
// s: scalars from the decay on.
Value direction_of(const Lamb& l, const std::array<Value, 3>& s, const Value& m, const Value& v, const Value& w) {
  return s[1] * m / (s[2] * sqrt(v) + l.epsilon) + s[0] * w;
}
Formula direction_of(const Lamb& l) {  // m v w
  return formula({direction_of(l, {weight_decay(), scalar(3), scalar(4)}, operand(5), operand(6), operand(7))});
}

const Compiled kLambCompiled(formulas_of({Lamb{}}));

// The squares of parameter and direction; fuse makes their sums in one pass.
RowFormula squares_of(const Lamb& l) {  // w, the scalars from the decay on, m v
  const Value w = operand(0), length = direction_of(l, {scalar(1), scalar(2), scalar(3)}, operand(4), operand(5), w);
  return {formula({w * w, length * length}), {}, true};
}
const Compiled kLambSquares({squares_of(Lamb{})});

const OptimizerKind kLambKind("lamb", keys_of_lamb(), adam_like<Lamb>);

}  // namespace

Optimizer::Optimizer(const Lamb& l) : Optimizer(moments_of("lamb", l, keys_of_lamb())) {
  kind = "lamb";
  update = slots_of(l);
  direction = direction_of(l);
}

}  // namespace motley
