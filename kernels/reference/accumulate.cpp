// SPDX-License-Identifier: Apache-2.0
// Forward: a += g over n elements, a in f64. Backward_data: g = a, rounded once; a = 0.
#include "kernels/reference/reference.h"

namespace motley::reference {
namespace {

template <class T>
void add(const KernelSpec& spec, Operands operands, void*) {
  const T* g = static_cast<const T*>(operands[0]);
  auto* a = static_cast<double*>(operands[1]);
  for (Index n = 0; n < spec.roles.n; n++) a[n] += static_cast<double>(g[n]);
}

template <class T>
void take(const KernelSpec& spec, Operands operands, void*) {
  auto* a = static_cast<double*>(operands[0]);
  T* g = static_cast<T*>(operands[1]);
  for (Index n = 0; n < spec.roles.n; n++) {
    g[n] = static_cast<T>(a[n]);
    a[n] = 0;
  }
}

}  // namespace

Run accumulate(const KernelSpec& spec) {
  check(spec.pass != PassKind::backward_filter, "accumulate has two passes");
  return spec.pass == PassKind::forward ? by_dtype(spec, add<float>, add<double>) : by_dtype(spec, take<float>, take<double>);
}

}  // namespace motley::reference
