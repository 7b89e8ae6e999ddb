// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions and their gradients by our own loops.
#pragma once
#include <motley/backend.h>

#include "kernels/loops/loops.h"

namespace motley::cpu {

// Whether depthwise_kernel() can make it: an f32 convolution with one channel and one filter per group, channels last.
bool is_depthwise(const KernelSpec& spec);
std::unique_ptr<Kernel> depthwise_kernel(const KernelSpec& spec, const Loops& loops, int threads);

}  // namespace motley::cpu
