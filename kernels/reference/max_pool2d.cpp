// SPDX-License-Identifier: Apache-2.0
// y[n c p q] = max over r s of x[n c row(p,r) col(q,s)], over real elements only; 0 if a window has none.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/reference/reference.h"

namespace motley::reference {
namespace {

struct Winner {
  Index h = 0, w = 0;
  bool any = false;   // an element that `takes` allows was seen
  bool real = false;  // the window has a real element
};

// The first of the greatest elements in row-major order, or the last NaN if there is one; element (0, 0) of the slice is x(.., top,
// left).
template <class T, class Takes>
Winner winner(const KernelSpec& spec, const Slice<T>& x, Index n, Index c, Index p, Index q, Index top, Index left, Takes&& takes) {
  Winner best;
  best.real = for_each_real(spec, p, q, [&](Index h, Index w) {
                if (!takes(h, w)) return;
                const T value = x(n, c, h + top, w + left);
                if (!best.any || value > x(n, c, best.h + top, best.w + left) || std::isnan(value)) best = {h, w, true, true};
              }) > 0;
  return best;
}

template <class T>
void max_pool_forward(const KernelSpec& spec, Operands operands, void*) {
  const Roles& e = spec.roles;
  const auto x = x_slice<T>(operands[0], spec);
  const auto y = y_slice<T>(operands[1], spec);
  for (Index n = 0; n < e.n; n++)
    for (Index c = 0; c < e.c; c++)
      for (Index p = 0; p < e.p; p++)
        for (Index q = 0; q < e.q; q++) {
          const Winner best = winner(spec, x, n, c, p, q, 0, 0, [&](Index h, Index w) { return in_slice(spec, h, w); });
          y(n, c, p, q) = best.any ? x(n, c, best.h, best.w) : best.real ? -std::numeric_limits<T>::infinity() : T{0};
        }
}

// dx[n c h w] = sum of dy[n c p q] over the p q in whose window (h, w) wins. workspace: one plane [h w] of f64.
template <class T>
void max_pool_backward_data(const KernelSpec& spec, Operands operands, void* workspace) {
  const Roles& e = spec.roles;
  const auto dy = y_slice<T>(operands[0], spec);
  const auto x = x_slice_with_halo<T>(operands[1], spec);
  const auto dx = x_slice<T>(operands[2], spec);
  double* plane = static_cast<double*>(workspace);
  for (Index n = 0; n < e.n; n++)
    for (Index c = 0; c < e.c; c++) {
      std::fill(plane, plane + e.h * e.w, 0.0);
      for (Index p = 0; p < e.p; p++)
        for (Index q = 0; q < e.q; q++) {
          const Winner best = winner(spec, x, n, c, p, q, spec.halo[0], spec.halo[2], [](Index, Index) { return true; });
          if (best.any && in_slice(spec, best.h, best.w)) plane[best.h * e.w + best.w] += static_cast<double>(dy(n, c, p, q));
        }
      for (Index h = 0; h < e.h; h++)
        for (Index w = 0; w < e.w; w++) dx(n, c, h, w) = static_cast<T>(plane[h * e.w + w]);
    }
}

}  // namespace

Run max_pool2d(const KernelSpec& spec) {
  check(spec.pass != PassKind::backward_filter, "a pool has no filter");
  if (spec.pass == PassKind::forward) return by_dtype(spec, max_pool_forward<float>, max_pool_forward<double>);
  return by_dtype(spec, max_pool_backward_data<float>, max_pool_backward_data<double>);
}

}  // namespace motley::reference
