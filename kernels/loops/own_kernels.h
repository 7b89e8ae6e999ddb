// SPDX-License-Identifier: Apache-2.0
// Kernels made of our own loops.
#pragma once
#include <motley/backend.h>

#include "kernels/loops/loops.h"

namespace motley::cpu {

bool supports(const KernelSpec& spec);  // whether own_kernel() makes it
// Maps, pools, and contractions with an extent of 0 (the result is 0, or epilogue(b) where a forward pass has nothing to add up).
// DeviceError: what the loops cannot do. InternalError: a broken spec.
std::unique_ptr<Kernel> own_kernel(const KernelSpec& spec, const Loops& loops, int threads);
// The contraction, compiled without the spec's epilogue, with it.
std::unique_ptr<Kernel> then_epilogue(std::unique_ptr<Kernel> contraction, const KernelSpec& spec, const Loops& loops, int threads);

}  // namespace motley::cpu
