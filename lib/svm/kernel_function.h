// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/svm.h>

#include <cmath>

namespace motley::svm {

inline double power(double base, int exponent) {
  double out = 1;
  for (; exponent > 0; exponent /= 2, base *= base)
    if (exponent % 2 == 1) out *= base;
  return out;
}

// From the product of two samples and the products of each with itself.
inline double value_of(const KernelFunction& kernel, double product, double own, double others) {
  switch (kernel.kind) {
    case KernelKind::linear: return product;
    case KernelKind::polynomial: return power(kernel.gamma * product + kernel.coef0, kernel.degree);
    case KernelKind::rbf: {
      const double distance = own + others - 2 * product;
      return std::exp(-kernel.gamma * (distance > 0 ? distance : 0));
    }
  }
  return 0;
}

}  // namespace motley::svm
