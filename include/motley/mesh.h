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

/// How ranks exchange messages on a mesh with modelled devices, where links are not measured. Of several that hold for two ranks
/// the most specific counts: one between two devices, then one between their names without "[k]", then ranks, then hosts.
struct MeshLink {
  /// hosts: the network card of each host, which its ranks share; ranks: two ranks of one host; devices: `a` and `b`.
  enum class Between : std::uint8_t { hosts, ranks, devices };
  Between between = Between::hosts;  ///< which pairs of ranks
  std::string a{};                   ///< devices: the name of one, or of several without their "[k]"
  std::string b{};                   ///< devices: the other's
  double seconds = 0;                ///< of a message without bytes
  double bytes_per_second = 0;       ///< above 0
  bool operator==(const MeshLink&) const = default;
};

using Coord = std::vector<int>;  ///< A rank's place: one number per axis, from 0.

/// Which devices there are and how they are arranged. Immutable.
class Mesh {
 public:
  /// devices: one per rank, row-major in the axes (the last axis varies fastest). UserError: counts that do not fit, names that
  /// repeat, links without a modelled device.
  Mesh(std::vector<Axis> axes, std::vector<Device> devices, std::vector<MeshLink> links = {});
  /// Reads a mesh file. UserError with file, line and column.
  static Mesh load(const std::filesystem::path& file);
  int ranks() const { return static_cast<int>(devices_.size()); }  ///< number of devices
  Coord coord(int rank) const;                                     ///< where a rank is, unchecked
  int rank(const Coord& coord) const;                              ///< which rank is there, unchecked
  int axis(const std::string& name) const;                         ///< position of an axis. UserError with a suggestion
  const std::vector<Axis>& axes() const { return axes_; }          ///< outer to inner
  const Device& device(int rank) const { return devices_[static_cast<std::size_t>(rank)]; }  ///< of a rank, unchecked
  const std::vector<Device>& devices() const { return devices_; }                            ///< by rank
  const std::vector<MeshLink>& links() const { return links_; }  ///< of a mesh with modelled devices, as given
  const MeshLink* link(int from, int to) const;                  ///< the most specific one for two ranks; nullptr: none

 private:
  std::vector<Axis> axes_;
  std::vector<Device> devices_;
  std::vector<MeshLink> links_;
};

/// @}
}  // namespace motley
