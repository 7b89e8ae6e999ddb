// SPDX-License-Identifier: Apache-2.0
// The pointwise functions, in f64: compiled by the host's compiler and by nvcc, so that every device computes the same formula.
#pragma once
#include <motley/kernel_spec.h>

#include <cmath>

#if defined(__CUDACC__)
#define MOTLEY_HD __host__ __device__
#else
#define MOTLEY_HD
#endif

namespace motley {

MOTLEY_HD inline double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::none: return x;
    case Activation::relu: return x <= 0 ? 0 : x;  // NaN stays NaN
    case Activation::sigmoid: return 1 / (1 + std::exp(-x));
    case Activation::tanh: return std::tanh(x);
    case Activation::elu: return x > 0 ? x : std::expm1(x);
  }
  return x;
}

// activation'(x), computed from y = activation(x). relu'(0) = 0.
MOTLEY_HD inline double activation_gradient(Activation activation, double y) {
  switch (activation) {
    case Activation::none: return 1;
    case Activation::relu: return y > 0 ? 1 : 0;
    case Activation::sigmoid: return y * (1 - y);
    case Activation::tanh: return 1 - y * y;
    case Activation::elu: return y > 0 ? 1 : y + 1;
  }
  return 1;
}

}  // namespace motley
