// SPDX-License-Identifier: Apache-2.0
// Kernels made of our own loops.
#pragma once
#include <motley/backend.h>

#include "kernels/converted.h"
#include "kernels/loops/loops.h"

namespace motley::cpu {

bool supports(const KernelSpec& spec);  // whether own_kernel() makes it
// Maps, pools, and contractions with an extent of 0 (the result is 0, or epilogue(b) where a forward pass has nothing to add up).
// DeviceError: what the loops cannot do. InternalError: a broken spec.
std::unique_ptr<Kernel> own_kernel(const KernelSpec& spec, const Loops& loops, int threads);
// What makes the epilogue's operand, in f32.
KernelSpec without_epilogue(KernelSpec spec);
// The kernel of without_epilogue(spec), and the epilogue. Not where a bf16 result is added to.
std::unique_ptr<Kernel> then_epilogue(std::unique_ptr<Kernel> contraction, const KernelSpec& spec, const Loops& loops, int threads);

Conversion conversion_by(const Loops& loops, int threads);

}  // namespace motley::cpu
