// SPDX-License-Identifier: Apache-2.0
// y[n f p q] = activation(b[f] + sum over c r s of x[n c row(p,r) col(q,s)] * w[f c r s]), and its two gradients.
#include "kernels/reference/reference.h"

namespace motley::reference {
namespace {

template <class T>
void forward(const KernelSpec& spec, Operands operands, void*) {
  const Roles& e = spec.roles;
  const auto x = x_slice<T>(operands[0], spec);
  const auto w = w_slice<T>(operands[1], spec);
  const T* b = spec.bias ? static_cast<const T*>(operands[2]) : nullptr;
  const auto y = y_slice<T>(operands.back(), spec);
  for (Index n = 0; n < e.n; n++)
    for (Index f = 0; f < e.f; f++)
      for (Index p = 0; p < e.p; p++)
        for (Index q = 0; q < e.q; q++) {
          double sum = 0;
          for (Index c = 0; c < e.c; c++)
            for (Index r = 0; r < e.r; r++) {
              const Index h = row_of(spec, p, r);
              if (h < 0 || h >= e.h) continue;
              for (Index s = 0; s < e.s; s++) {
                const Index v = col_of(spec, q, s);
                if (v < 0 || v >= e.w) continue;
                sum += static_cast<double>(x(n, c, h, v)) * static_cast<double>(w(f, c, r, s));
              }
            }
          if (b != nullptr) sum += static_cast<double>(b[f]);
          y(n, f, p, q) = static_cast<T>(activate(spec.activation, sum));
        }
  y.zero_block_padding();
}

// The p (or q) whose window element `tap` reads x's row (or col) `at`; -1: none.
Index output_of(Index at, Index tap, Index stride, Index dilation, Index padding, Index outputs) {
  const Index scaled = at + padding - tap * dilation;
  return scaled >= 0 && scaled % stride == 0 && scaled / stride < outputs ? scaled / stride : -1;
}

// dx[n c h w] = sum over f r s, where row(p,r) = h and col(q,s) = w, of dy[n f p q] * w[f c r s]
template <class T>
void backward_data(const KernelSpec& spec, Operands operands, void*) {
  const Roles& e = spec.roles;
  const auto dy = y_slice<T>(operands[0], spec);
  const auto w = w_slice<T>(operands[1], spec);
  const auto dx = x_slice<T>(operands[2], spec);
  for (Index n = 0; n < e.n; n++)
    for (Index c = 0; c < e.c; c++)
      for (Index h = 0; h < e.h; h++)
        for (Index v = 0; v < e.w; v++) {
          double sum = 0;
          for (Index r = 0; r < e.r; r++) {
            const Index p = output_of(h, r, spec.stride[0], spec.dilation[0], spec.padding[0], e.p);
            if (p < 0) continue;
            for (Index s = 0; s < e.s; s++) {
              const Index q = output_of(v, s, spec.stride[1], spec.dilation[1], spec.padding[2], e.q);
              if (q < 0) continue;
              for (Index f = 0; f < e.f; f++) sum += static_cast<double>(dy(n, f, p, q)) * static_cast<double>(w(f, c, r, s));
            }
          }
          dx(n, c, h, v) = static_cast<T>(sum);
        }
  dx.zero_block_padding();
}

// dw[f c r s] = sum over n p q of x[n c row(p,r) col(q,s)] * dy[n f p q]
template <class T>
void backward_filter(const KernelSpec& spec, Operands operands, void*) {
  const Roles& e = spec.roles;
  const auto x = x_slice<T>(operands[0], spec);
  const auto dy = y_slice<T>(operands[1], spec);
  const auto dw = w_slice<T>(operands[2], spec);
  for (Index f = 0; f < e.f; f++)
    for (Index c = 0; c < e.c; c++)
      for (Index r = 0; r < e.r; r++)
        for (Index s = 0; s < e.s; s++) {
          double sum = 0;
          for (Index n = 0; n < e.n; n++)
            for (Index p = 0; p < e.p; p++) {
              const Index h = row_of(spec, p, r);
              if (h < 0 || h >= e.h) continue;
              for (Index q = 0; q < e.q; q++) {
                const Index v = col_of(spec, q, s);
                if (v < 0 || v >= e.w) continue;
                sum += static_cast<double>(x(n, c, h, v)) * static_cast<double>(dy(n, f, p, q));
              }
            }
          dw(f, c, r, s) = static_cast<T>(sum);
        }
  dw.zero_block_padding();
}

}  // namespace

Run conv2d(const KernelSpec& spec) {
  switch (spec.pass) {
    case PassKind::forward: return by_dtype(spec, forward<float>, forward<double>);
    case PassKind::backward_data: return by_dtype(spec, backward_data<float>, backward_data<double>);
    case PassKind::backward_filter: return by_dtype(spec, backward_filter<float>, backward_filter<double>);
  }
  throw InternalError("conv2d has no such pass");
}

}  // namespace motley::reference
