// SPDX-License-Identifier: Apache-2.0
// loss = mean of |x - y|; dx = the sign of x - y, 0 where they are equal, times g / elements.
#include "graph/ops/mean_loss.h"

namespace motley {

static Value absolute_error(const Value& x, const Value& y) {
  return select(x < y, y - x, x - y);
}
// The difference itself where both are equal, or one is a NaN.
static Value error_sign(const Value& x, const Value& y) {
  return select(x < y, -1.0, select(y < x, 1.0, x - y));
}

Tensor mean_absolute_error(const Tensor& x, const Tensor& labels, const NameOption& o) {
  return mean_loss("mean_absolute_error", x, labels, o.name, {absolute_error, error_sign});
}

}  // namespace motley
