// SPDX-License-Identifier: Apache-2.0
// g' = s[1] * g + weight_decay * w; v = momentum * v + g'; w -= s[0] * v (the stored v), over n elements, v and w in place.
#include "kernels/reference/reference.h"

namespace motley::reference {
namespace {

template <class T>
void update(const KernelSpec& spec, Operands operands, void*) {
  const auto* s = static_cast<const double*>(operands[0]);
  const T* g = static_cast<const T*>(operands[1]);
  T* v = static_cast<T*>(operands[2]);
  T* w = static_cast<T*>(operands[3]);
  for (Index n = 0; n < spec.roles.n; n++) {
    const double weight = static_cast<double>(w[n]);
    v[n] =
        static_cast<T>(spec.momentum * static_cast<double>(v[n]) + (s[1] * static_cast<double>(g[n]) + spec.weight_decay * weight));
    w[n] = static_cast<T>(weight - s[0] * static_cast<double>(v[n]));
  }
}

}  // namespace

Run sgd(const KernelSpec& spec) {
  check(spec.pass == PassKind::forward, "sgd has one pass");
  return by_dtype(spec, update<float>, update<double>);
}

}  // namespace motley::reference
