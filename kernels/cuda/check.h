// SPDX-License-Identifier: Apache-2.0
// Turns the status of a vendor call into a DeviceError that names the call. The only three places that turn a status into words.
#pragma once
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <motley/error.h>

#include <string>

namespace motley::cuda {

inline void checked(cudaError_t status, const char* call) {
  if (status != cudaSuccess) throw DeviceError(std::string("CUDA: ") + call + ": " + cudaGetErrorString(status));
}

inline void checked(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) throw DeviceError(std::string("cuBLASLt: ") + call + ": " + cublasLtGetStatusString(status));
}

inline void checked(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char text[512] = "";
  cudnnGetLastErrorString(text, sizeof text);
  throw DeviceError(std::string("cuDNN: ") + call + ": " + cudnnGetErrorString(status) +
                    (*text != 0 ? std::string(" (") + text + ")" : ""));
}

}  // namespace motley::cuda

#define MOTLEY_CUDA(call) ::motley::cuda::checked(call, #call)
