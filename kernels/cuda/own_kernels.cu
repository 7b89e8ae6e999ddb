// SPDX-License-Identifier: Apache-2.0
// The formulas as kernels: a thread per index.
#include "kernels/cuda/check.h"
#include "kernels/cuda/device_kernels.h"
#include "kernels/cuda/own_kernels.h"

namespace motley::cuda {
namespace {

constexpr Index kThreads = 256, kMostBlocks = 1 << 20;

template <class F>
__global__ void __launch_bounds__(kThreads) each(Index n, F formula) {
  const Index step = static_cast<Index>(gridDim.x) * kThreads;
  for (Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x; i < n; i += step) formula(i);
}

struct DeviceLaunch {
  cudaStream_t stream = nullptr;
  template <class F>
  void operator()(Index n, const F& formula) const {
    if (n == 0) return;
    const Index wanted = (n + kThreads - 1) / kThreads;
    each<<<static_cast<unsigned>(wanted < kMostBlocks ? wanted : kMostBlocks), static_cast<unsigned>(kThreads), 0, stream>>>(
        n, formula);
    checked(cudaGetLastError(), "a kernel's launch");
  }
};

template <class T>
void move_as(const MoveOptions& o, const void* from, void* to, cudaStream_t stream) {
  DeviceLaunch{stream}(o.to.elements, Move<T>{o, static_cast<const T*>(from), static_cast<T*>(to)});
}

template <class T>
void finish_as(const EpilogueOptions& o, const void* bias, const void* sum, void* y, cudaStream_t stream) {
  DeviceLaunch{stream}(o.to.elements, Epilogue<T>{o, static_cast<const T*>(bias), static_cast<const T*>(sum), static_cast<T*>(y)});
}

}  // namespace

std::unique_ptr<Kernel> own_kernel(const KernelSpec& spec, cudaStream_t stream) {
  return make_own_kernel(spec, DeviceLaunch{stream});
}

Conversion conversion_on(cudaStream_t stream) {
  return conversion_by(DeviceLaunch{stream});
}

void move(const MoveOptions& o, DType dtype, const void* from, void* to, cudaStream_t stream) {
  dtype == DType::f64 ? move_as<double>(o, from, to, stream) : move_as<float>(o, from, to, stream);
}

void finish(const EpilogueOptions& o, DType dtype, const void* bias, const void* sum, void* y, cudaStream_t stream) {
  dtype == DType::f64 ? finish_as<double>(o, bias, sum, y, stream) : finish_as<float>(o, bias, sum, y, stream);
}

}  // namespace motley::cuda
