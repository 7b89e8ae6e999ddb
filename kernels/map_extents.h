// SPDX-License-Identifier: Apache-2.0
// A map's extents as its loops use them: extents that every operand traverses like a single one are joined.
#pragma once
#include <motley/kernel_spec.h>

#include <cstddef>
#include <vector>

namespace motley {

struct MapExtent {
  Index size = 1;
  std::vector<Index> strides{};  // of every operand, the results' last
  std::size_t inputs = 0;        // number of operands that are not results
  int position = -1;             // which of the formula's positions runs along this extent; -1: none
  Index result() const { return strides[inputs]; }
};

std::vector<MapExtent> extents_of(const KernelSpec& map);  // in its order
// Joins neighbouring extents that every operand traverses like one extent. Extents with a position stay.
void join(std::vector<MapExtent>& extents);

}  // namespace motley
