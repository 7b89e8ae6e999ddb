// SPDX-License-Identifier: Apache-2.0
// y[n c p q] = mean over r s of x[n c row(p,r) col(q,s)], over real elements only; 0 if a window has none.
#include <algorithm>

#include "kernels/reference/reference.h"

namespace motley::reference {
namespace {

template <class T>
void avg_pool_forward(const KernelSpec& spec, Operands operands, void*) {
  const Roles& e = spec.roles;
  const auto x = x_slice<T>(operands[0], spec);
  const auto y = y_slice<T>(operands[1], spec);
  for (Index n = 0; n < e.n; n++)
    for (Index c = 0; c < e.c; c++)
      for (Index p = 0; p < e.p; p++)
        for (Index q = 0; q < e.q; q++) {
          double sum = 0;
          const Index count = for_each_real(spec, p, q, [&](Index h, Index w) {
            if (in_slice(spec, h, w)) sum += static_cast<double>(x(n, c, h, w));
          });
          y(n, c, p, q) = static_cast<T>(count == 0 ? 0 : sum / static_cast<double>(count));
        }
}

// dx[n c h w] = sum over the p q whose window contains (h, w) of dy[n c p q] / count(p, q). workspace: one plane [h w] of f64.
template <class T>
void avg_pool_backward_data(const KernelSpec& spec, Operands operands, void* workspace) {
  const Roles& e = spec.roles;
  const auto dy = y_slice<T>(operands[0], spec);
  const auto dx = x_slice<T>(operands[1], spec);
  double* plane = static_cast<double*>(workspace);
  for (Index n = 0; n < e.n; n++)
    for (Index c = 0; c < e.c; c++) {
      std::fill(plane, plane + e.h * e.w, 0.0);
      for (Index p = 0; p < e.p; p++)
        for (Index q = 0; q < e.q; q++) {
          const Index count = for_each_real(spec, p, q, [](Index, Index) {});
          const double share = static_cast<double>(dy(n, c, p, q)) / static_cast<double>(count);  // unused if count is 0
          for_each_real(spec, p, q, [&](Index h, Index w) {
            if (in_slice(spec, h, w)) plane[h * e.w + w] += share;
          });
        }
      for (Index h = 0; h < e.h; h++)
        for (Index w = 0; w < e.w; w++) dx(n, c, h, w) = static_cast<T>(plane[h * e.w + w]);
    }
}

}  // namespace

Run avg_pool2d(const KernelSpec& spec) {
  check(spec.pass != PassKind::backward_filter, "a pool has no filter");
  if (spec.pass == PassKind::forward) return by_dtype(spec, avg_pool_forward<float>, avg_pool_forward<double>);
  return by_dtype(spec, avg_pool_backward_data<float>, avg_pool_backward_data<double>);
}

}  // namespace motley::reference
