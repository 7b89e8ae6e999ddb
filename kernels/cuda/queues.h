// SPDX-License-Identifier: Apache-2.0
// One GPU's memory, and its two queues as streams.
#pragma once
#include <cuda_runtime_api.h>
#include <motley/backend.h>

#include <array>

namespace motley::cuda {

class Queues final : public DeviceMemory {
 public:
  explicit Queues(int index);  // selects the GPU for this thread from now on. DeviceError
  ~Queues() override;
  Queues(const Queues&) = delete;
  Queues& operator=(const Queues&) = delete;
  cudaStream_t stream(Queue queue) const { return streams_[static_cast<std::size_t>(queue)]; }

  Block allocate(std::size_t bytes) override;
  Block allocate_host(std::size_t bytes) override;
  std::unique_ptr<Mark> make_mark() override;
  void copy(Queue queue, void* to, const void* from, std::size_t bytes) override;

 private:
  std::array<cudaStream_t, 2> streams_{};
};

}  // namespace motley::cuda
