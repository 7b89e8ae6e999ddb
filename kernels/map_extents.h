// SPDX-License-Identifier: Apache-2.0
// A map's extents as its loops see them: those that every operand walks like one are one.
#pragma once
#include <motley/kernel_spec.h>

#include <cstddef>
#include <vector>

namespace motley {

struct MapExtent {
  Index size = 1;
  std::vector<Index> strides{};  // of every operand, the results' last
  std::size_t inputs = 0;        // operands that are no results
  int position = -1;             // which of the formula's positions runs along it; -1: none
  Index result() const { return strides[inputs]; }
};

std::vector<MapExtent> extents_of(const KernelSpec& map);  // in its order
// Neighbours that walk memory like one extent become one. Those with a position stay.
void join(std::vector<MapExtent>& extents);

}  // namespace motley
