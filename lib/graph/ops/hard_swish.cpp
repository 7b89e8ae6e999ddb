// SPDX-License-Identifier: Apache-2.0
// x min(max(x + 3, 0), 6) / 6 (Howard et al., arXiv 1905.02244, section 5.2).
#include <motley/ops.h>

#include "graph/pointwise.h"

namespace motley {

static const Pointwise kHardSwish("hard_swish",
                                  [](const Value& x) { return select(x <= -3.0, 0.0, select(3.0 <= x, x, x * (x + 3.0) / 6.0)); });

Tensor hard_swish(const Tensor& x, const NameOption& o) {
  return kHardSwish(x, o.name);
}

}  // namespace motley
