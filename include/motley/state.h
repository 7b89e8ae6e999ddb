// SPDX-License-Identifier: Apache-2.0
/// @file
/// What outlives a Program: this rank's owned boxes of parameters and optimizer slots.
#pragma once
#include <motley/backend.h>
#include <motley/program.h>

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace motley {
/// @addtogroup programs
/// @{

/// The memory of a Program's state buffers.
class State {
 public:
  /// Initial values of every owned box: drawn per tensor name and global index (equal for every mesh, layout and rank count),
  /// He-uniform by the global fan-in; velocities are 0, seeds 1. In the device's memory where there is one. DeviceError: out of
  /// memory.
  State(const Plan& plan, const Program& program, std::uint64_t seed, DeviceMemory* device = nullptr);
  std::byte* buffer(int id) { return memory_.at(id).get(); }                           ///< of one of the Program's state buffers
  const std::map<int, std::shared_ptr<std::byte>>& memory() const { return memory_; }  ///< by buffer

 private:
  std::map<int, std::shared_ptr<std::byte>> memory_{};
};

/// @}
}  // namespace motley
