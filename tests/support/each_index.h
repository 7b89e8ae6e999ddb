// SPDX-License-Identifier: Apache-2.0
// A box element by element, in the plainest way.
#pragma once
#include <motley/dims.h>

#include <vector>

namespace motley {

// Calls visit(at) for every element of the box, row-major; at: its global indices.
template <class F>
void for_each_index(const Box& box, F visit) {
  std::vector<Index> at;
  for (const Range& r : box) at.push_back(r.begin);
  for (Index left = volume(box); left > 0; left--) {
    visit(static_cast<const std::vector<Index>&>(at));
    for (std::size_t d = box.size(); d-- > 0;) {
      if (++at[d] < box[d].end) break;
      at[d] = box[d].begin;
    }
  }
}

// Row-major position in the complete tensor.
inline Index position_of(const Shape& shape, const std::vector<Index>& at) {
  Index position = 0;
  for (std::size_t d = 0; d < at.size(); d++) position = position * shape[d].size + at[d];
  return position;
}

}  // namespace motley
