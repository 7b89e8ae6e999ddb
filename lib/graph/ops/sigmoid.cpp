// SPDX-License-Identifier: Apache-2.0
// 1 / (1 + exp(-x))
#include <motley/ops.h>

#include "graph/pointwise.h"

namespace motley {

static const Pointwise kSigmoid(
    "sigmoid", [](const Value& x) { return 1.0 / (1.0 + exp(-x)); }, [](const Value& y) { return y * (1.0 - y); });

Tensor sigmoid(const Tensor& x, const NameOption& o) {
  return kSigmoid(x, o.name);
}

}  // namespace motley
