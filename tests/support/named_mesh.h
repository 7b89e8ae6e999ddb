// SPDX-License-Identifier: Apache-2.0
// A mesh whose CPU devices are called d0, d1, ...
#pragma once
#include <motley/mesh.h>

#include <string>
#include <utility>
#include <vector>

namespace motley {

inline Mesh named_mesh(std::vector<Axis> axes) {
  int ranks = 1;
  for (const Axis& a : axes) ranks *= a.size;
  std::vector<Device> devices(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; r++) devices[static_cast<std::size_t>(r)].name = "d" + std::to_string(r);
  return Mesh(std::move(axes), std::move(devices));
}

}  // namespace motley
