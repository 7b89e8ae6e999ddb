// SPDX-License-Identifier: Apache-2.0
// Memory in which kernels are timed: one block shared by all of them, so that a thousand kernels need as much as the largest one;
// or as much as a step has: then each run uses memory that has been unused for as long as in a step, in the caches or not.
#pragma once
#include <motley/backend.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <vector>

namespace motley {

struct OperandUse;

// Inputs hold numbers in 0.5 .. 1.5 (no denormals; logarithms and sums stay finite), labels 0 .. 7, and are never a kernel's
// result. Operands of one kernel do not overlap; those of different kernels do.
class OperandMemory {
 public:
  static std::size_t bytes_of(const KernelSpec& spec);  // of its operands
  void reserve(const KernelSpec& spec, std::size_t workspace_bytes);
  void wander(std::size_t step_bytes);  // through so much memory, inputs and results together; 0: each run uses the same place
  std::size_t bytes() const;            // all bytes reserved so far
  void allocate(DeviceMemory* device = nullptr);        // and fills; in the device's memory if a device is given. DeviceError
  std::vector<void*> operands(const KernelSpec& spec);  // reserved and allocated before this call
  void* workspace() const { return blocks_[kWorkspace].get(); }

 private:
  enum Block : std::size_t { kNumbers, kLabels, kResults, kWorkspace, kBlocks };
  static Block block_of(const OperandUse& use);
  std::array<std::size_t, kBlocks> most_{}, next_{};  // bytes
  bool wanders_ = false;
  std::array<DeviceMemory::Block, kBlocks> blocks_{};
};

}  // namespace motley
