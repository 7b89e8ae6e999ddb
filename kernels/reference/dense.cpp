// SPDX-License-Identifier: Apache-2.0
// y[g n f] = epilogue(b[f] + sum over c of x[g n c] * w[g f c]), and its two gradients. All row-major.
#include "kernels/reference/reference.h"

namespace motley::reference {
namespace {

template <class T>
void dense_forward(const KernelSpec& spec, Operands operands, void*) {
  const Roles& e = spec.roles;
  const T* x = static_cast<const T*>(operands[0]);
  const T* w = static_cast<const T*>(operands[1]);
  const T* b = spec.bias ? static_cast<const T*>(operands[2]) : nullptr;
  T* y = static_cast<T*>(operands.back());
  const PlainFormula epilogue = plain_of(spec.epilogue);
  for (Index g = 0; g < e.g; g++, x += e.n * e.c, w += e.f * e.c, y += e.n * e.f)
    for (Index n = 0; n < e.n; n++)
      for (Index f = 0; f < e.f; f++) {
        double sum = 0;
        for (Index c = 0; c < e.c; c++) sum += static_cast<double>(x[n * e.c + c]) * static_cast<double>(w[f * e.c + c]);
        if (b != nullptr) sum += static_cast<double>(b[f]);
        y[n * e.f + f] = static_cast<T>(apply(epilogue, sum));
      }
}

// dx[g n c] = sum over f of dy[g n f] * w[g f c]
template <class T>
void dense_backward_data(const KernelSpec& spec, Operands operands, void*) {
  const Roles& e = spec.roles;
  const T* dy = static_cast<const T*>(operands[0]);
  const T* w = static_cast<const T*>(operands[1]);
  T* dx = static_cast<T*>(operands[2]);
  for (Index g = 0; g < e.g; g++, dy += e.n * e.f, w += e.f * e.c, dx += e.n * e.c)
    for (Index n = 0; n < e.n; n++)
      for (Index c = 0; c < e.c; c++) {
        double sum = 0;
        for (Index f = 0; f < e.f; f++) sum += static_cast<double>(dy[n * e.f + f]) * static_cast<double>(w[f * e.c + c]);
        dx[n * e.c + c] = static_cast<T>(sum);
      }
}

// dw[g f c] = sum over n of dy[g n f] * x[g n c]
template <class T>
void dense_backward_filter(const KernelSpec& spec, Operands operands, void*) {
  const Roles& e = spec.roles;
  const T* x = static_cast<const T*>(operands[0]);
  const T* dy = static_cast<const T*>(operands[1]);
  T* dw = static_cast<T*>(operands[2]);
  for (Index g = 0; g < e.g; g++, x += e.n * e.c, dy += e.n * e.f, dw += e.f * e.c)
    for (Index f = 0; f < e.f; f++)
      for (Index c = 0; c < e.c; c++) {
        double sum = 0;
        for (Index n = 0; n < e.n; n++) sum += static_cast<double>(dy[n * e.f + f]) * static_cast<double>(x[n * e.c + c]);
        dw[f * e.c + c] = static_cast<T>(sum);
      }
}

}  // namespace

Run dense(const KernelSpec& spec) {
  switch (spec.pass) {
    case PassKind::forward: return by_dtype(spec, dense_forward<float>, dense_forward<double>);
    case PassKind::backward_data: return by_dtype(spec, dense_backward_data<float>, dense_backward_data<double>);
    case PassKind::backward_filter: return by_dtype(spec, dense_backward_filter<float>, dense_backward_filter<double>);
  }
  throw InternalError("dense has no such pass");
}

}  // namespace motley::reference
