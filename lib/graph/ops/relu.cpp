// SPDX-License-Identifier: Apache-2.0
// max(x, 0); NaN stays NaN. dx is 0 where x is 0.
#include <motley/ops.h>

#include "graph/pointwise.h"

namespace motley {

static const Pointwise kRelu(
    "relu", [](const Value& x) { return select(x <= 0.0, 0.0, x); }, [](const Value& y) { return select(0.0 < y, 1.0, 0.0); });

Tensor relu(const Tensor& x, const NameOption& o) {
  return kRelu(x, o.name);
}

}  // namespace motley
