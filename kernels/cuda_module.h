// SPDX-License-Identifier: Apache-2.0
// The CUDA backend is a separate module, loaded only by processes that drive a GPU or query one: cuBLASLt alone costs a process 60
// ms and 94 MB, and a program linked with cuDNN does not start where cuDNN is absent.
#pragma once
#include <motley/backend.h>

#include <string>
#include <vector>

namespace motley {

struct CudaGpu {
  std::string model{}, isa{};  // "sm_90"
  Index memory_bytes = 0;
};
struct CudaFacts {
  std::string library{};        // "CUDA 13.0, cuDNN 9.19.0, cuBLASLt 13.1.0"; empty: the module is absent
  std::string missing{};        // why no GPU can be used, and what to do; empty: GPUs can be used
  std::vector<CudaGpu> gpus{};  // by index
};

// What motley_cuda.so exports as motley_cuda_module().
struct CudaModule {
  std::unique_ptr<Backend> (*open)(const Device& device);
  CudaFacts (*facts)();
};
using CudaModuleEntry = const CudaModule* (*)();

CudaFacts cuda_facts();
// DeviceError: no module, no driver, no such GPU.
std::unique_ptr<Backend> open_cuda_backend(const Device& device);

}  // namespace motley
