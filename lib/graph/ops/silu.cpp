// SPDX-License-Identifier: Apache-2.0
// x * sigmoid(x) (Elfwing, Uchibe and Doya, arXiv 1702.03118)
#include <motley/ops.h>

#include "graph/pointwise.h"

namespace motley {

// 0 below -88, where sigmoid(x) < 6e-39: with an infinite exp(-x) the gradient would be infinity / infinity.
static const Pointwise kSilu("silu",
                             [](const Value& x) { return select(x < -88.0, 0.0, x / (1.0 + exp(-select(x < -88.0, -88.0, x)))); });

Tensor silu(const Tensor& x, const NameOption& o) {
  return kSilu(x, o.name);
}

}  // namespace motley
