// SPDX-License-Identifier: Apache-2.0
#include "base/copy_box.h"

#include <cstring>

namespace motley {

void copy_box(std::span<const Index> extents, std::size_t item, const std::byte* from, std::span<const Index> from_strides,
              std::byte* to, std::span<const Index> to_strides) {
  std::size_t outer = extents.size();  // the dims after these are one run on both sides
  Index run = 1;
  while (outer > 0 && (extents[outer - 1] == 1 || (from_strides[outer - 1] == run && to_strides[outer - 1] == run)))
    run *= extents[--outer];
  Index left = 1;
  for (std::size_t d = 0; d < outer; d++) left *= extents[d];
  if (run == 0) return;
  std::vector<Index> at(outer, 0);
  Index source = 0, target = 0;
  for (; left > 0; left--) {
    std::memcpy(to + static_cast<std::size_t>(target) * item, from + static_cast<std::size_t>(source) * item,
                static_cast<std::size_t>(run) * item);
    for (std::size_t d = outer; d-- > 0;) {
      source += from_strides[d];
      target += to_strides[d];
      if (++at[d] < extents[d]) break;
      source -= extents[d] * from_strides[d];
      target -= extents[d] * to_strides[d];
      at[d] = 0;
    }
  }
}

std::vector<Index> row_major(const Box& box) {
  std::vector<Index> strides(box.size(), 1);
  for (std::size_t d = box.size(); d-- > 1;) strides[d - 1] = strides[d] * box[d].size();
  return strides;
}

Index item_of(const Box& box, std::span<const Index> strides, const Box& at) {
  Index item = 0;
  for (std::size_t d = 0; d < box.size(); d++) item += (at[d].begin - box[d].begin) * strides[d];
  return item;
}

}  // namespace motley
