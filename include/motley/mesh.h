// SPDX-License-Identifier: Apache-2.0
// Ranks (a Device each) along named axes. Pure arithmetic: no query talks to MPI.
#pragma once
#include <motley/device.h>

#include <filesystem>
#include <string>
#include <vector>

namespace motley {

struct Axis {
  std::string name{};
  int size = 0;
  bool operator==(const Axis&) const = default;
};

using Coord = std::vector<int>;  // one per axis

class Mesh {
 public:
  // devices: one per rank, row-major in the axes. UserError: counts that do not fit, names that repeat.
  Mesh(std::vector<Axis> axes, std::vector<Device> devices);
  static Mesh load(const std::filesystem::path& file);  // UserError with file, line and column
  int ranks() const { return static_cast<int>(devices_.size()); }
  Coord coord(int rank) const;
  int rank(const Coord& coord) const;
  int axis(const std::string& name) const;  // its position; UserError with did-you-mean
  const std::vector<Axis>& axes() const { return axes_; }
  const Device& device(int rank) const { return devices_[static_cast<std::size_t>(rank)]; }
  const std::vector<Device>& devices() const { return devices_; }

 private:
  std::vector<Axis> axes_;
  std::vector<Device> devices_;
};

}  // namespace motley
