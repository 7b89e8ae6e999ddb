// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/backend.h>

#include <memory>

namespace motley::f64 {

// conv2d or dense in f64, as products of matrices.
std::unique_ptr<Kernel> contraction(const KernelSpec& spec);

}  // namespace motley::f64
