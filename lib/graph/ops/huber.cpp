// SPDX-License-Identifier: Apache-2.0
// loss = mean of d^2 / 2 for d = |x - y| up to delta, delta (d - delta / 2) beyond; dx = x - y, between -delta and delta, times g /
// elements (Huber, "Robust estimation of a location parameter", 1964).
#include "base/interval.h"
#include "graph/ops/mean_loss.h"

namespace motley {

Tensor huber(const Tensor& x, const Tensor& labels, const HuberOptions& o) {
  require_within("huber: delta", o.delta, kHuberDelta);
  const double delta = o.delta;
  return mean_loss("huber", x, labels, o.name,
                   {[delta](const Value& a, const Value& b) {
                      const Value d = select(a < b, b - a, a - b);
                      return select(delta < d, delta * (d - delta / 2), 0.5 * d * d);
                    },
                    [delta](const Value& a, const Value& b) {
                      const Value d = a - b;
                      return select(d < -delta, -delta, select(delta < d, delta, d));
                    }});
}

}  // namespace motley
