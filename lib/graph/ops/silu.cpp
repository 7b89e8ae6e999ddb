// SPDX-License-Identifier: Apache-2.0
// x * sigmoid(x) (Elfwing, Uchibe and Doya, arXiv 1702.03118)
#include <motley/ops.h>

#include "graph/pointwise.h"

namespace motley {

static const Pointwise kOp("silu", [](const Value& x) { return x / (1.0 + exp(-x)); });

Tensor silu(const Tensor& x, const NameOption& o) {
  return kOp(x, o.name);
}

}  // namespace motley
