// SPDX-License-Identifier: Apache-2.0
// Kernels built from our own loops.
#pragma once
#include <motley/backend.h>

#include "kernels/converted.h"
#include "kernels/loops/loops.h"

namespace motley::cpu {

bool supports(const KernelSpec& spec);  // whether own_kernel() can make it
// Maps, pools, and contractions with an extent of 0 (the result is 0, or epilogue(b) if a forward pass has nothing to sum).
// DeviceError: what the loops do not support. InternalError: an invalid spec.
std::unique_ptr<Kernel> own_kernel(const KernelSpec& spec, const Loops& loops, int threads);
// The spec that makes the epilogue's operand, in f32.
KernelSpec without_epilogue(KernelSpec spec);
// The map that applies the epilogue to so many elements of its operand in f32.
KernelSpec epilogue_of(const KernelSpec& spec, Index elements);
// The kernel of without_epilogue(spec), followed by the epilogue. Not for adding to a bf16 result.
std::unique_ptr<Kernel> then_epilogue(std::unique_ptr<Kernel> contraction, const KernelSpec& spec, const Loops& loops, int threads);

Conversion conversion_by(const Loops& loops, int threads);

}  // namespace motley::cpu
