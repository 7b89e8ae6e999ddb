// SPDX-License-Identifier: Apache-2.0
// GELU with a tanh instead of erf (Hendrycks and Gimpel, arXiv 1606.08415, section 2).
#include <motley/ops.h>

#include "graph/pointwise.h"

namespace motley {

static const Pointwise kGeluTanh("gelu_tanh", [](const Value& x) {
  constexpr double kFactor = 0.79788456080286535588;  // sqrt(2 / pi)
  // From |x| = 10 on the tanh is -1 or 1 in any case; an infinite square would make its gradient 0 times infinity.
  const Value square = select(x * x < 100.0, x * x, 100.0);
  return 0.5 * x * (1.0 + tanh(kFactor * (x + 0.044715 * square * x)));
});

Tensor gelu_tanh(const Tensor& x, const NameOption& o) {
  return kGeluTanh(x, o.name);
}

}  // namespace motley
