// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/queues.h"

#include "kernels/cuda/check.h"

namespace motley::cuda {
namespace {

class EventMark final : public DeviceMemory::Mark {
 public:
  explicit EventMark(const Queues& queues) : queues_(queues) { MOTLEY_CUDA(cudaEventCreate(&event_)); }
  ~EventMark() override { cudaEventDestroy(event_); }
  EventMark(const EventMark&) = delete;
  EventMark& operator=(const EventMark&) = delete;

  void set(DeviceMemory::Queue queue) override { MOTLEY_CUDA(cudaEventRecord(event_, queues_.stream(queue))); }
  void hold(DeviceMemory::Queue queue) override { MOTLEY_CUDA(cudaStreamWaitEvent(queues_.stream(queue), event_, 0)); }
  bool passed() override {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) return false;
    checked(status, "cudaEventQuery, which also reports what an earlier kernel did wrong");
    return true;
  }
  double seconds_since(const DeviceMemory::Mark& earlier) const override {
    float milliseconds = 0;
    MOTLEY_CUDA(cudaEventElapsedTime(&milliseconds, dynamic_cast<const EventMark&>(earlier).event_, event_));
    return 1e-3 * static_cast<double>(milliseconds);
  }

 private:
  const Queues& queues_;
  cudaEvent_t event_ = nullptr;
};

}  // namespace

Queues::Queues(int index) {
  MOTLEY_CUDA(cudaSetDevice(index));
  for (cudaStream_t& stream : streams_) MOTLEY_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
}

Queues::~Queues() {
  for (cudaStream_t stream : streams_)
    if (stream != nullptr) cudaStreamDestroy(stream);
}

DeviceMemory::Block Queues::allocate(std::size_t bytes) {
  void* made = nullptr;
  if (const cudaError_t status = cudaMalloc(&made, bytes); status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // clears the error, which is reported here and not again by the next call
    checked(status, ("cudaMalloc of " + std::to_string(bytes) + " bytes").c_str());
  }
  Block block(static_cast<std::byte*>(made), [](std::byte* p) { cudaFree(p); });
  MOTLEY_CUDA(cudaMemset(made, 0, bytes));
  MOTLEY_CUDA(cudaStreamSynchronize(nullptr));  // our streams do not wait for the stream that cudaMemset uses
  return block;
}

DeviceMemory::Block Queues::allocate_host(std::size_t bytes) {
  void* made = nullptr;
  if (const cudaError_t status = cudaHostAlloc(&made, bytes, cudaHostAllocPortable); status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    checked(status, ("cudaHostAlloc of " + std::to_string(bytes) + " bytes of pinned memory").c_str());
  }
  return {static_cast<std::byte*>(made), [](std::byte* p) { cudaFreeHost(p); }};
}

std::unique_ptr<DeviceMemory::Mark> Queues::make_mark() {
  return std::make_unique<EventMark>(*this);
}

void Queues::copy(Queue queue, void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) MOTLEY_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream(queue)));  // computed from the addresses
}

}  // namespace motley::cuda
