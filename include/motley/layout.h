// SPDX-License-Identifier: Apache-2.0
/// @file
/// Where one tensor is stored.
#pragma once
#include <motley/mesh.h>
#include <motley/partition.h>

#include <map>
#include <string>
#include <vector>

namespace motley {
/// @addtogroup layouts
/// @{

/// One dim cut over an ordered tuple of axes: a flat list of offsets, with the ranks row-major in those axes. There is one list for
/// all ranks (`lists.size() == 1`), or one per coordinate of the axis `per` (jagged).
struct Cut {
  std::vector<int> axes{};                     ///< positions in the mesh
  int per = -1;                                ///< position of the axis along which the list differs; -1: none
  std::vector<Partition> lists{};              ///< one, or one per coordinate of `per`
  Range at(const Mesh& mesh, int rank) const;  ///< global indices that a rank has
  Cut scaled(Index from, Index to) const;      ///< each list scaled: Partition::scaled
  auto operator<=>(const Cut&) const = default;
};

/// Cuts of a tensor's dims; no two cuts use the same axis. Along an axis without a cut each rank stores what it reads.
struct Layout {
  Shape shape{};                              ///< of the complete tensor
  std::map<std::string, Cut> cuts{};          ///< dim -> its cut
  Box box(const Mesh& mesh, int rank) const;  ///< global indices that a rank stores, in the order of `shape`; unchecked
  bool operator==(const Layout&) const = default;
};

/// @}
}  // namespace motley
