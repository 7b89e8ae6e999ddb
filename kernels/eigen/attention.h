// SPDX-License-Identifier: Apache-2.0
// Attention on CPUs: products of matrices, a block of queries at a time.
#pragma once
#include <motley/backend.h>

#include <memory>

#include "kernels/loops/loops.h"

namespace motley::eigen {

// f32 and f64. Any extent may be 0. The bits are the same for any number of threads.
std::unique_ptr<Kernel> attention(const KernelSpec& spec, const cpu::Loops& loops, int threads);

}  // namespace motley::eigen
