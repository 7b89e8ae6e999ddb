// SPDX-License-Identifier: Apache-2.0
// Kernels built from oneDNN primitives. No extent is 0 (own_kernels.h: empty_kernel).
#pragma once
#include <motley/backend.h>

#include "kernels/cpu/dnnl_compat.h"
#include "kernels/loops/loops.h"

namespace motley::cpu {

struct Vendor {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  const Loops* loops = nullptr;
  int threads = 1;
};

// The type of x, w and y, or their gradients: of the pass's result (KernelSpec::result) or of an operand.
inline dnnl::memory::data_type type_of(const KernelSpec& spec, bool result) {
  using Type = dnnl::memory::data_type;
  return spec.dtype == DType::bf16 && (!result || spec.result == DType::bf16) ? Type::bf16 : Type::f32;
}

// For f32, and for bf16 if the CPU computes with it. DeviceError, dnnl::error: oneDNN refuses.
std::unique_ptr<Kernel> convolution_kernel(const KernelSpec& spec, const Vendor& vendor);
std::unique_ptr<Kernel> dense_kernel(const KernelSpec& spec, const Vendor& vendor);

}  // namespace motley::cpu
