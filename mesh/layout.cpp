// SPDX-License-Identifier: Apache-2.0
#include <motley/error.h>
#include <motley/layout.h>

#include <algorithm>

namespace motley {

Range Cut::at(const Mesh& mesh, int rank) const {
  const Coord c = mesh.coord(rank);
  int part = 0;
  for (int a : axes) part = part * mesh.axes()[static_cast<std::size_t>(a)].size + c[static_cast<std::size_t>(a)];
  const std::size_t list = per < 0 ? 0 : static_cast<std::size_t>(c[static_cast<std::size_t>(per)]);
  return lists[list].range(part);
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
