// SPDX-License-Identifier: Apache-2.0
// x above 0, slope times x below (Maas, Hannun, Ng, "Rectifier nonlinearities improve neural network acoustic models", 2013).
#include "base/interval.h"
#include "graph/compiled.h"
#include "graph/layer_kind.h"
#include "graph/pointwise.h"

namespace motley {

static Pointwise::Function leaky(double slope) {
  return [slope](const Value& x) { return select(0.0 < x, x, slope * x); };
}
static constexpr Interval<double> kSlope{-1e300, 1e300};
static const Compiled kLeakyReluCompiled(Pointwise::formulas(leaky(0.01)));

Tensor leaky_relu(const Tensor& x, const LeakyReluOptions& o) {
  require_within("leaky_relu: slope", o.slope, kSlope);
  return Pointwise::apply("leaky_relu", x, o.name, leaky(o.slope));
}

static const LayerKind kLeakyReluKind(
    "leaky_relu", 1,
    {{"slope", "factor of negative values", LayerKey::Kind::number, LeakyReluOptions{}.slope, kSlope.least, kSlope.most}},
    [](const LayerArguments& l) { return leaky_relu(l.in(), {.slope = l.numbers.at("slope"), .name = l.name}); });

}  // namespace motley
