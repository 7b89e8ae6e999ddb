// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/backend.h>

#include <memory>

namespace motley::cpu {

// A kernel for a map of the form of kernels/one_hot.h, f32 and f64; null: the map has another form. Work: the named rows (if v is
// reduced), or the named rows plus all of the result (if v is kept), not their product.
std::unique_ptr<Kernel> one_hot_kernel(const KernelSpec& spec, int threads);

}  // namespace motley::cpu
