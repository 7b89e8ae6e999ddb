// SPDX-License-Identifier: Apache-2.0
// A rank's part of a cut, and its list of a jagged one.
#pragma once
#include <motley/mesh.h>

#include <vector>

namespace motley {

// The rank's part among those over these axes (row-major in the axes).
int part_of(const Mesh& mesh, const std::vector<int>& axes, int rank);
// The rank's list among those along the axis `per`; -1: there is only one list.
std::size_t list_of(const Mesh& mesh, int per, int rank);

}  // namespace motley
