// SPDX-License-Identifier: Apache-2.0
// Everything that one GPU computes. All of it goes into the stream that is named at compilation.
#pragma once
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <motley/backend.h>

#include "kernels/cuda/window_formulas.h"

namespace motley::cuda {

// What kernels are made with.
struct Vendor {
  cudaStream_t stream = nullptr;
  cudnnHandle_t cudnn = nullptr;
  cublasLtHandle_t cublas = nullptr;
  bool tf32 = false;  // f32 products on tensor cores: about 10 bits of mantissa
};

std::unique_ptr<Kernel> own_kernel(const KernelSpec& spec, cudaStream_t stream);         // own_kernels.cu
std::unique_ptr<Kernel> convolution_kernel(const KernelSpec& spec, const Vendor& vendor);  // null: cuDNN has no engine for it
std::unique_ptr<Kernel> dense_kernel(const KernelSpec& spec, const Vendor& vendor);

void move(const MoveOptions& options, DType dtype, const void* from, void* to, cudaStream_t stream);
// y = activation(y + bias); bias null: none.
void finish(const Slice& y, Activation activation, DType dtype, const void* bias, void* data, cudaStream_t stream);

}  // namespace motley::cuda
