// SPDX-License-Identifier: Apache-2.0
#include <motley/error.h>
#include <motley/layout.h>

#include <algorithm>

#include "mesh/parts.h"

namespace motley {

int part_of(const Mesh& mesh, const std::vector<int>& axes, int rank) {
  const Coord c = mesh.coord(rank);
  int part = 0;
  for (int a : axes) part = part * mesh.axes()[static_cast<std::size_t>(a)].size + c[static_cast<std::size_t>(a)];
  return part;
}

std::size_t list_of(const Mesh& mesh, int per, int rank) {
  return per < 0 ? 0 : static_cast<std::size_t>(mesh.coord(rank)[static_cast<std::size_t>(per)]);
}

Range Cut::at(const Mesh& mesh, int rank) const {
  check(!lists.empty(), "a cut has a list of parts");
  return lists[list_of(mesh, per, rank)].range(part_of(mesh, axes, rank));
}

Cut Cut::scaled(Index from, Index to) const {
  Cut out = *this;
  for (Partition& p : out.lists) p = p.scaled(from, to);
  return out;
}

Box Layout::box(const Mesh& mesh, int rank) const {
  Box box;
  for (const Dim& d : shape.dims()) {
    auto cut = cuts.find(d.name);
    box.push_back(cut == cuts.end() ? Range{0, d.size} : cut->second.at(mesh, rank));
  }
  return box;
}

}  // namespace motley
