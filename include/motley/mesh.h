// SPDX-License-Identifier: Apache-2.0
/// @file
/// Ranks (a Device each) along named axes. Pure arithmetic: no query talks to MPI.
#pragma once
#include <motley/device.h>

#include <filesystem>
#include <string>
#include <vector>

namespace motley {
/// @addtogroup machines
/// @{

/// A named direction of the mesh.
struct Axis {
  std::string name{};  ///< unique in its mesh
  int size = 0;        ///< ranks along it
  bool operator==(const Axis&) const = default;
};

using Coord = std::vector<int>;  ///< A rank's place: one number per axis, from 0.

/// Which devices there are and how they are arranged. Immutable.
class Mesh {
 public:
  /// devices: one per rank, row-major in the axes (the last axis varies fastest). UserError: counts that do not fit, names that
  /// repeat.
  Mesh(std::vector<Axis> axes, std::vector<Device> devices);
  /// Reads a mesh file. UserError with file, line and column.
  static Mesh load(const std::filesystem::path& file);
  int ranks() const { return static_cast<int>(devices_.size()); }  ///< number of devices
  Coord coord(int rank) const;                                     ///< where a rank is, unchecked
  int rank(const Coord& coord) const;                              ///< which rank is there, unchecked
  int axis(const std::string& name) const;                         ///< position of an axis. UserError with a suggestion
  const std::vector<Axis>& axes() const { return axes_; }          ///< outer to inner
  const Device& device(int rank) const { return devices_[static_cast<std::size_t>(rank)]; }  ///< of a rank, unchecked
  const std::vector<Device>& devices() const { return devices_; }                            ///< by rank

 private:
  std::vector<Axis> axes_;
  std::vector<Device> devices_;
};

/// @}
}  // namespace motley
