// SPDX-License-Identifier: Apache-2.0
// x * sigmoid(x) (Elfwing, Uchibe and Doya, arXiv 1702.03118)
#include <motley/ops.h>

#include "graph/pointwise.h"

namespace motley {

// Below -88 sigmoid(x) is replaced by exp(-88) = 6e-39: with an infinite exp(-x) the gradient would be infinity / infinity.
static const Pointwise kOp("silu", [](const Value& x) { return x / (1.0 + exp(-select(x < -88.0, -88.0, x))); });

Tensor silu(const Tensor& x, const NameOption& o) {
  return kOp(x, o.name);
}

}  // namespace motley
