// SPDX-License-Identifier: Apache-2.0
// Where one tensor lies at rest.
#pragma once
#include <motley/mesh.h>
#include <motley/partition.h>

#include <map>
#include <string>
#include <vector>

namespace motley {

// One dim over an ordered tuple of axes: one flat list of offsets, ranks row-major in those axes. The list is the same
// everywhere (lists.size() == 1), or one per coordinate of the axis `per` (jagged).
struct Cut {
  std::vector<int> axes{};  // positions in the mesh
  int per = -1;             // position of the axis on which the list differs; -1: none
  std::vector<Partition> lists{};
  Range at(const Mesh& mesh, int rank) const;
  Cut scaled(Index from, Index to) const;
  auto operator<=>(const Cut&) const = default;
};

// Cuts of a tensor's dims, no two of which use one axis. On an axis without a cut a coordinate holds what it reads.
struct Layout {
  Shape shape{};
  std::map<std::string, Cut> cuts{};  // dim -> its cut
  Box box(const Mesh& mesh, int rank) const;
  bool operator==(const Layout&) const = default;
};

}  // namespace motley
