// SPDX-License-Identifier: Apache-2.0
#include "kernels/map_extents.h"

#include <utility>

#include "kernels/operands.h"

namespace motley {

namespace {

bool joins(const MapExtent& a, const MapExtent& b) {
  if (a.position >= 0 || b.position >= 0) return false;
  for (std::size_t k = 0; k < a.strides.size(); k++)
    if (a.strides[k] != b.strides[k] * b.size) return false;
  return true;
}

}  // namespace

std::vector<MapExtent> extents_of(const KernelSpec& map) {
  std::vector<MapExtent> out;
  for (std::size_t i = 0; i < map.extents.size(); i++) {
    const int number = static_cast<int>(i);
    MapExtent extent{map.extents[i], {}, input_count(map), reads_position(map.formula, number) ? number : -1};
    for (const MapOperand& operand : map.operands) extent.strides.push_back(operand.strides[i]);
    out.push_back(std::move(extent));
  }
  return out;
}

void join(std::vector<MapExtent>& extents) {
  for (std::size_t i = 0; i + 1 < extents.size();) {
    if (joins(extents[i], extents[i + 1])) {
      extents[i + 1].size *= extents[i].size;
      extents.erase(extents.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      i++;
    }
  }
}

}  // namespace motley
