// SPDX-License-Identifier: Apache-2.0
// min(max(x, 0), 6) (Krizhevsky, "Convolutional deep belief networks on CIFAR-10", 2010).
#include <motley/ops.h>

#include "graph/pointwise.h"

namespace motley {

static const Pointwise kRelu6(
    "relu6", [](const Value& x) { return select(x <= 0.0, 0.0, select(6.0 <= x, 6.0, x)); },
    [](const Value& y) { return select(y <= 0.0, 0.0, select(6.0 <= y, 0.0, 1.0)); });

Tensor relu6(const Tensor& x, const NameOption& o) {
  return kRelu6(x, o.name);
}

}  // namespace motley
