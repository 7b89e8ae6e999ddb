// SPDX-License-Identifier: Apache-2.0
// loss = mean of (x - y)^2; dx = 2 (x - y) g / elements.
#include "graph/compiled.h"
#include "graph/ops/mean_loss.h"

namespace motley {

static const MeanLoss kSquaredError{[](const Value& x, const Value& y) { return (x - y) * (x - y); },
                                    [](const Value& x, const Value& y) { return 2.0 * (x - y); }};
static const Compiled kMeanSquaredErrorCompiled(formulas_of(kSquaredError));

Tensor mean_squared_error(const Tensor& x, const Tensor& labels, const NameOption& o) {
  return mean_loss("mean_squared_error", x, labels, o.name, kSquaredError);
}

}  // namespace motley
