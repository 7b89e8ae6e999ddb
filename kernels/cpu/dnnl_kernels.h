// SPDX-License-Identifier: Apache-2.0
// Kernels made of oneDNN primitives. No extent is 0 (own_kernels.h: empty_kernel).
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

// DeviceError: oneDNN refuses.
std::unique_ptr<Kernel> convolution_kernel(const KernelSpec& spec, const Vendor& vendor);
std::unique_ptr<Kernel> dense_kernel(const KernelSpec& spec, const Vendor& vendor);

}  // namespace motley::cpu
