// SPDX-License-Identifier: Apache-2.0
// log(1 + exp(x)) (Dugas et al., "Incorporating second-order functional knowledge for better option pricing", 2001), as max(x, 0) +
// log(1 + exp(-|x|)), in which nothing overflows. dx = dy sigmoid(x).
#include <motley/ops.h>

#include "graph/pointwise.h"

namespace motley {

static const Pointwise kSoftplus("softplus",
                                 [](const Value& x) { return select(x < 0.0, 0.0, x) + log1p(exp(select(x < 0.0, x, -x))); });

Tensor softplus(const Tensor& x, const NameOption& o) {
  return kSoftplus(x, o.name);
}

}  // namespace motley
