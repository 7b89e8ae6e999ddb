// SPDX-License-Identifier: Apache-2.0
/// @file
/// What outlives a Program: parameters and optimizer slots, by name.
#pragma once
#include <motley/backend.h>
#include <motley/plan.h>
#include <motley/program.h>
#include <motley/transport.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace motley {
/// @addtogroup running
/// @{

/// Which of a parameter's values: its own, or the optimizer's.
enum class StatePart : std::uint8_t { value, velocity };

/// A box of a tensor and its values, row-major.
struct BoxValues {
  Box box{};                     ///< global indices
  std::vector<double> values{};  ///< of the box
};

/// One rank's part of a plan's parameters: the boxes that it owns. Programs of plans in which it owns the same boxes run on it.
class State {
 public:
  /// Initial values of every owned box: drawn per tensor name and global index (equal for every mesh, layout and rank count),
  /// He-uniform by the global fan-in; velocities are 0. In the device's memory where there is one. DeviceError: out of memory.
  State(const Plan& plan, int rank, std::uint64_t seed, DeviceMemory* device = nullptr);
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  std::vector<std::string> names() const;  ///< of the parameters, on every rank, in the order of the step
  /// The complete tensor, row-major, on every rank. Collective. UserError: no parameter has this name.
  std::vector<double> get(Transport& transport, const std::string& name, StatePart part = StatePart::value) const;
  /// What this rank owns of it; empty: nothing. UserError: no parameter has this name.
  std::vector<BoxValues> shard(const std::string& name, StatePart part = StatePart::value) const;
  /// Every rank gives the complete tensor, row-major, and keeps what it owns; between steps. UserError: no parameter has this name,
  /// or it has another size.
  void set(const std::string& name, const std::vector<double>& values, StatePart part = StatePart::value);
  /// The memory of an owned box that a Program describes so. UserError: no parameter has this name, another dtype, or this rank
  /// does not store exactly this box.
  std::byte* address(const std::string& name, StatePart part, const Buffer& as) const;
  std::vector<std::shared_ptr<std::byte>> memory() const;  ///< all of it

 private:
  struct Parameter {
    std::string name{};
    Shape shape{};
  };
  struct Stored {  // one owned box, described as a Program's buffer
    StatePart part = StatePart::value;
    Buffer as{};
    std::shared_ptr<std::byte> memory{};
  };
  const Parameter& parameter(const std::string& name) const;
  std::vector<Parameter> parameters_{};
  std::vector<Stored> stored_{};
  DeviceMemory* device_ = nullptr;
};

/// @}
}  // namespace motley
