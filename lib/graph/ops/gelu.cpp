// SPDX-License-Identifier: Apache-2.0
// x times the normal distribution's probability up to x (Hendrycks and Gimpel, arXiv 1606.08415, eq. 1).
#include <motley/ops.h>

#include "graph/pointwise.h"

namespace motley {

static const Pointwise kOp("gelu", [](const Value& x) {
  constexpr double kSqrtHalf = 0.70710678118654752440;
  return 0.5 * x * (1.0 + erf(kSqrtHalf * x));
});

Tensor gelu(const Tensor& x, const NameOption& o) {
  return kOp(x, o.name);
}

}  // namespace motley
