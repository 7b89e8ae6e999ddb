// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/backend.h>

#include <memory>

namespace motley::cpu {

// Of a map of the form of kernels/one_hot.h, f32 and f64; null: it has another form. Work: rows that are named (v reduced), rows
// that are named and all of the result (v kept), not their product.
std::unique_ptr<Kernel> one_hot_kernel(const KernelSpec& spec, int threads);

}  // namespace motley::cpu
