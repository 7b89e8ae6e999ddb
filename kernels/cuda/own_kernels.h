// SPDX-License-Identifier: Apache-2.0
// Kernels from texts. The compiler of the texts is the GPU's (rtc.h), or one for the host where kernels are checked without a GPU
// (tests/support/host_texts.h).
#pragma once
#include <motley/backend.h>

#include "kernels/converted.h"
#include "kernels/cuda/kernel_text.h"
#include "kernels/cuda/window_text.h"

namespace motley::cuda {

bool supports_own_kernel(const KernelSpec& spec);
// A map, a pool, or a convolution or product by its definition. DeviceError, if not supported.
std::unique_ptr<Kernel> own_kernel(const KernelSpec& spec, TextCompiler& compiler);

// What is done around a vendor's convolution or product.
class Mover {
 public:
  Mover(const MoveOptions& options, DType dtype, TextCompiler& compiler);
  void run(const void* from, void* to) const;

 private:
  std::shared_ptr<const Loaded> loaded_;
  Index elements_;
};
class Finisher {
 public:
  Finisher(const EpilogueOptions& options, TextCompiler& compiler);
  void run(const void* bias, const void* sum, void* y) const;  // bias null: none

 private:
  std::shared_ptr<const Loaded> loaded_;
  Index elements_;
};
Conversion conversion_by(TextCompiler& compiler);

}  // namespace motley::cuda
