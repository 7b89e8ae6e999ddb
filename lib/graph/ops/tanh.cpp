// SPDX-License-Identifier: Apache-2.0
// The hyperbolic tangent.
#include <motley/ops.h>

#include "graph/pointwise.h"

namespace motley {

static const Pointwise kTanh(
    "tanh", [](const Value& x) { return tanh(x); }, [](const Value& y) { return 1.0 - y * y; });

Tensor tanh(const Tensor& x, const NameOption& o) {
  return kTanh(x, o.name);
}

}  // namespace motley
