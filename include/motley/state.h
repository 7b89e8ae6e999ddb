// SPDX-License-Identifier: Apache-2.0
/// @file
/// What outlives a Program: parameters and optimizer slots, by name.
#pragma once
#include <motley/backend.h>
#include <motley/plan.h>
#include <motley/program.h>
#include <motley/transport.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace motley {
/// @addtogroup running
/// @{

/// A box of a tensor and its values, row-major.
struct BoxValues {
  Box box{};                     ///< global indices
  std::vector<double> values{};  ///< of the box
};

/// One entry of a State: a parameter or statistic (slot ""), or one of the optimizer's slots of a parameter.
struct StateEntry {
  std::string name{};        ///< of the parameter or statistic
  std::string slot{};        ///< of the optimizer; empty: the value itself
  Shape shape{};             ///< complete
  DType dtype = DType::f32;  ///< as it is stored
  bool frozen = false;       ///< the parameter stays as it is (TrainingOptions::freeze)
  /// Further names under which files may have the value: of a weight that several layers share, those of the other layers.
  std::vector<std::string> also{};
};

/// A box that a rank owns, in its memory.
struct StoredBox {
  std::string slot{};                   ///< of the optimizer; empty: the parameter or statistic itself
  Buffer as{};                          ///< name, dtype, box and format, as a Program's buffer
  std::shared_ptr<std::byte> memory{};  ///< in the memory of the State's device, if it has one
};

/// One rank's part of a plan's parameters and running statistics: the boxes that it owns, and the optimizer's slots of each
/// trained parameter (Optimizer::slots, "velocity"); the slot "" is the parameter itself. Programs of any plan in which the rank
/// owns the same boxes run on it.
class State {
 public:
  /// Initial values of every owned box: weights and biases are drawn per tensor name and global index (equal for every mesh, layout
  /// and rank count), He-uniform by the global fan-in; those of norms are 1 and 0; the optimizer's slots are 0, an average
  /// (TrainingOptions::average) is the parameter. In the device's memory if there is a device. UserError: a rank that is not in the
  /// plan; DeviceError: out of memory.
  State(const Plan& plan, int rank, std::uint64_t seed, DeviceMemory* device = nullptr);
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  std::vector<std::string> names() const;   ///< of parameters and statistics, on every rank, in the order of the step
  std::vector<StateEntry> entries() const;  ///< all that the ranks store together, the same on every rank
  bool has(const std::string& name, const std::string& slot = {}) const;  ///< the same on every rank
  /// The complete tensor, row-major, on every rank. Collective. UserError: no parameter or slot has this name.
  std::vector<double> get(Transport& transport, const std::string& name, const std::string& slot = {}) const;
  /// What this rank owns of the tensor; empty: nothing. UserError: no parameter or slot has this name.
  std::vector<BoxValues> shard(const std::string& name, const std::string& slot = {}) const;
  /// The boxes of the tensor that this rank owns. UserError: no parameter or slot has this name.
  std::vector<Box> boxes(const std::string& name, const std::string& slot = {}) const;
  /// The inverse of shard(): sets the values of boxes(), in that order; between steps. Every rank calls it. UserError: no parameter
  /// or slot has this name, other boxes.
  void set_shard(const std::string& name, const std::vector<BoxValues>& values, const std::string& slot = {});
  /// Every rank gives the complete tensor, row-major, and keeps what it owns; between steps. UserError: no parameter or slot has
  /// this name, or it has another size.
  void set(const std::string& name, const std::vector<double>& values, const std::string& slot = {});
  /// The memory of the owned box that a Program describes by `as`. UserError: no parameter or slot has this name, another dtype, or
  /// this rank does not store exactly this box.
  std::byte* address(const std::string& name, const std::string& slot, const Buffer& as) const;
  const std::vector<StoredBox>& stored() const { return stored_; }  ///< all that this rank owns
  /// Names of its classes, by number; empty: not known. Files of weights and checkpoints keep them.
  const std::vector<std::string>& classes() const { return classes_; }
  void set_classes(std::vector<std::string> names) { classes_ = std::move(names); }  ///< the same on every rank
  DeviceMemory* device() const { return device_; }  ///< the device whose memory holds it; null: it is in host memory
  /// Says that values were set, by overwrite() or through addresses: what ranks keep of frozen parameters is sent again. Every rank
  /// calls it, between the same steps; set() and set_shard() do so by themselves.
  void changed() { changes_++; }
  std::uint64_t changes() const { return changes_; }  ///< grows with each call of changed()
  /// Sets the box's values: row-major, in the State's dtype; between steps.
  void overwrite(const StoredBox& box, const std::byte* values);

 private:
  struct Parameter {
    std::string name{};
    Shape shape{};
    bool statistic = false, frozen = false;
    std::vector<std::string> also{};
    bool has_slots() const { return !statistic && !frozen; }
  };
  const Parameter& parameter(const std::string& name) const;
  void check_slot(const std::string& name, const std::string& slot) const;
  template <class Value>
  void overwrite_each(const std::string& name, const std::string& slot, Value&& value);
  std::vector<Parameter> parameters_{};
  std::vector<std::string> slots_{""};
  DType dtype_ = DType::f32;
  std::vector<StoredBox> stored_{};
  std::vector<std::string> classes_{};
  std::uint64_t changes_ = 0;
  DeviceMemory* device_ = nullptr;
};

/// @}
}  // namespace motley
