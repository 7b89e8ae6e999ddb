// SPDX-License-Identifier: Apache-2.0
// Which part of a cut, and which list of a jagged one, a rank has.
#pragma once
#include <motley/mesh.h>

#include <vector>

namespace motley {

// Of the parts over these axes, row-major in them: the rank's.
int part_of(const Mesh& mesh, const std::vector<int>& axes, int rank);
// Of the lists along the axis `per`: the rank's; -1: there is one.
std::size_t list_of(const Mesh& mesh, int per, int rank);

}  // namespace motley
