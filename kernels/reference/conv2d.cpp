// SPDX-License-Identifier: Apache-2.0
// y[n f p q] = epilogue(b[f] + sum over c r s of x[n c row(p,r) col(q,s)] * w[f c r s]), or that added to y, and its two gradients;
// with groups, f counts all filters and c the channels within a group. The innermost loops run along rows of x and y, so that
// compilers vectorise them; workspace: one such row of f64 sums.
#include <algorithm>

#include "kernels/reference/reference.h"

namespace motley::reference {
namespace {

// The columns q of y whose window element s is on a real column of x.
Range real_columns(const KernelSpec& spec, Index s) {
  const Index low = spec.padding[2] - s * spec.dilation[1], high = spec.roles.w - 1 + low,
              stride = spec.stride[1];  // low <= q*stride <= high
  const Index begin = low <= 0 ? 0 : (low + stride - 1) / stride;
  return {begin, high < 0 ? begin : std::max(begin, std::min(spec.roles.q, high / stride + 1))};
}

// to[i * to_step] += factor * from[i * from_step]
template <class T>
void add_scaled(double* __restrict to, Index to_step, const T* __restrict from, Index from_step, double factor, Index count) {
  if (to_step == 1 && from_step == 1)
    for (Index i = 0; i < count; i++) to[i] += factor * static_cast<double>(from[i]);
  else
    for (Index i = 0; i < count; i++) to[i * to_step] += factor * static_cast<double>(from[i * from_step]);
}

// to[i] += a[i * a_step] * b[i * b_step]
template <class T>
void add_products(double* __restrict to, const T* a, Index a_step, const T* b, Index b_step, Index count) {
  if (a_step == 1 && b_step == 1)
    for (Index i = 0; i < count; i++) to[i] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  else
    for (Index i = 0; i < count; i++) to[i] += static_cast<double>(a[i * a_step]) * static_cast<double>(b[i * b_step]);
}

template <class T>
void conv_forward(const KernelSpec& spec, Operands operands, void* workspace) {
  const Roles& e = spec.roles;
  const auto x = x_slice<T>(operands[0], spec);
  const auto w = w_slice<T>(operands[1], spec);
  const T* b = spec.bias ? static_cast<const T*>(operands[2]) : nullptr;
  const auto y = y_slice<T>(operands.back(), spec);
  double* sums = static_cast<double*>(workspace);
  const PlainFormula epilogue = plain_of(spec.epilogue);
  for (Index n = 0; n < e.n; n++)
    for (Index f = 0; f < e.g * e.f; f++)
      for (Index p = 0; p < e.p; p++) {
        for (Index q = 0; q < e.q; q++) sums[q] = spec.accumulate ? static_cast<double>(y(n, f, p, q)) : 0.0;
        for (Index s = 0; s < e.s; s++) {
          const Range q = real_columns(spec, s);
          if (q.size() == 0) continue;
          for (Index r = 0; r < e.r; r++) {
            const Index h = row_of(spec, p, r), v = col_of(spec, q.begin, s);
            if (h < 0 || h >= e.h) continue;
            for (Index c = 0; c < e.c; c++)
              add_scaled(sums + q.begin, 1, &x(n, f / e.f * e.c + c, h, v), x.step() * spec.stride[1],
                         static_cast<double>(w(f, c, r, s)), q.size());
          }
        }
        for (Index q = 0; q < e.q; q++)
          y(n, f, p, q) = static_cast<T>(apply(epilogue, b != nullptr ? sums[q] + static_cast<double>(b[f]) : sums[q]));
      }
}

// The row p of y whose window element r reads x's row h; -1: none.
Index output_row(const KernelSpec& spec, Index h, Index r) {
  const Index scaled = h + spec.padding[0] - r * spec.dilation[0];
  return scaled >= 0 && scaled % spec.stride[0] == 0 && scaled / spec.stride[0] < spec.roles.p ? scaled / spec.stride[0] : -1;
}

// dx[n c h w] = sum over f r s, where row(p,r) = h and col(q,s) = w, of dy[n f p q] * w[f c r s]
template <class T>
void conv_backward_data(const KernelSpec& spec, Operands operands, void* workspace) {
  const Roles& e = spec.roles;
  const auto dy = y_slice<T>(operands[0], spec);
  const auto w = w_slice<T>(operands[1], spec);
  const auto dx = x_slice<T>(operands[2], spec);
  double* sums = static_cast<double*>(workspace);
  for (Index n = 0; n < e.n; n++)
    for (Index c = 0; c < e.g * e.c; c++)
      for (Index h = 0; h < e.h; h++) {
        std::fill(sums, sums + e.w, 0.0);
        for (Index s = 0; s < e.s; s++) {
          const Range q = real_columns(spec, s);
          if (q.size() == 0) continue;
          for (Index r = 0; r < e.r; r++) {
            const Index p = output_row(spec, h, r), v = col_of(spec, q.begin, s);
            if (p < 0) continue;
            for (Index f = c / e.c * e.f; f < (c / e.c + 1) * e.f; f++)
              add_scaled(sums + v, spec.stride[1], &dy(n, f, p, q.begin), dy.step(), static_cast<double>(w(f, c % e.c, r, s)),
                         q.size());
          }
        }
        for (Index v = 0; v < e.w; v++) dx(n, c, h, v) = static_cast<T>(sums[v]);
      }
}

// dw[f c r s] = sum over n p q of x[n c row(p,r) col(q,s)] * dy[n f p q]; first over n p for every column q.
template <class T>
void conv_backward_filter(const KernelSpec& spec, Operands operands, void* workspace) {
  const Roles& e = spec.roles;
  const auto x = x_slice<T>(operands[0], spec);
  const auto dy = y_slice<T>(operands[1], spec);
  const auto dw = w_slice<T>(operands[2], spec);
  double* sums = static_cast<double*>(workspace);
  for (Index f = 0; f < e.g * e.f; f++)
    for (Index c = 0; c < e.c; c++)
      for (Index r = 0; r < e.r; r++)
        for (Index s = 0; s < e.s; s++) {
          const Range q = real_columns(spec, s);
          std::fill(sums, sums + e.q, 0.0);
          for (Index n = 0; n < e.n && q.size() > 0; n++)
            for (Index p = 0; p < e.p; p++) {
              const Index h = row_of(spec, p, r);
              if (h < 0 || h >= e.h) continue;
              add_products(sums + q.begin, &x(n, f / e.f * e.c + c, h, col_of(spec, q.begin, s)), x.step() * spec.stride[1],
                           &dy(n, f, p, q.begin), dy.step(), q.size());
            }
          double sum = 0;
          for (Index at = q.begin; at < q.end; at++) sum += sums[at];
          dw(f, c, r, s) = static_cast<T>(sum);
        }
}

}  // namespace

Run conv2d(const KernelSpec& spec) {
  switch (spec.pass) {
    case PassKind::forward: return by_dtype(spec, conv_forward<float>, conv_forward<double>);
    case PassKind::backward_data: return by_dtype(spec, conv_backward_data<float>, conv_backward_data<double>);
    case PassKind::backward_filter: return by_dtype(spec, conv_backward_filter<float>, conv_backward_filter<double>);
  }
  throw InternalError("conv2d has no such pass");
}

}  // namespace motley::reference
