// SPDX-License-Identifier: Apache-2.0
// Kernels of the vendor's libraries for one GPU. They run in the stream that is given at compilation.
#pragma once
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <motley/backend.h>

#include <string>
#include <vector>

#include "kernels/cuda/kernel_text.h"

namespace motley::cuda {

// Settings with which kernels are compiled.
struct Vendor {
  cudaStream_t stream = nullptr;
  cudnnHandle_t cudnn = nullptr;
  cublasLtHandle_t cublas = nullptr;
  TextCompiler* texts = nullptr;     // for what is done around a vendor's kernel
  bool tf32 = false;                 // f32 products on tensor cores: about 10 bits of mantissa
  bool fuses = true;                 // bias and relu into a convolution
  bool deterministic = true;         // no kernel whose order of additions varies
  std::int64_t workspace_bytes = 0;  // limit for convolutions: cudnn_graph.h's workspace_limit
};

// implementation: the one with this name; empty: the first that fits. Null: there is none.
std::unique_ptr<Kernel> convolution_kernel(const KernelSpec& spec, const Vendor& vendor, const std::string& implementation);
std::unique_ptr<Kernel> dense_kernel(const KernelSpec& spec, const Vendor& vendor, const std::string& implementation);
std::vector<std::string> convolution_implementations(const KernelSpec& spec, const Vendor& vendor);
std::vector<std::string> dense_implementations(const KernelSpec& spec, const Vendor& vendor);

}  // namespace motley::cuda
