// SPDX-License-Identifier: Apache-2.0
// Kernels made of our own loops.
#pragma once
#include <motley/backend.h>

#include "kernels/loops/loops.h"

namespace motley::cpu {

// Of every op but conv2d and dense. DeviceError: what the loops cannot do. InternalError: a broken spec.
std::unique_ptr<Kernel> own_kernel(const KernelSpec& spec, const Loops& loops, int threads);
// conv2d and dense with an extent of 0: the result is 0, or activation(b) where a forward pass has nothing to add up.
std::unique_ptr<Kernel> empty_kernel(const KernelSpec& spec, const Loops& loops);

}  // namespace motley::cpu
