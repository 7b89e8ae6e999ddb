// SPDX-License-Identifier: Apache-2.0
// x above 0, exp(x) - 1 below.
#include <motley/ops.h>

#include "graph/pointwise.h"

namespace motley {

static const Pointwise kElu(
    "elu", [](const Value& x) { return select(0.0 < x, x, expm1(x)); },
    [](const Value& y) { return select(0.0 < y, 1.0, y + 1.0); });

Tensor elu(const Tensor& x, const NameOption& o) {
  return kElu(x, o.name);
}

}  // namespace motley
