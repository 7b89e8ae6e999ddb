// SPDX-License-Identifier: Apache-2.0
// conv2d and dense as products of matrices: used by the Eigen backend (f32) and for f64 plans.
#pragma once
#include <motley/backend.h>

#include <memory>

#include "kernels/eigen/products.h"

namespace motley::eigen {

struct Means {
  cpu::Simd simd = cpu::Simd::generic;
  int threads = 1;  // the bits are the same for any number
};

// f32 or f64. Any extent may be 0.
std::unique_ptr<Kernel> contraction(const KernelSpec& spec, const Means& means);

}  // namespace motley::eigen
