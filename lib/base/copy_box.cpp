// SPDX-License-Identifier: Apache-2.0
#include "base/copy_box.h"

#include <cstdint>
#include <cstring>

namespace motley {

namespace {

// Items of one size that are not contiguous on either side.
template <class Item>
void copy_items(Index n, const std::byte* from, Index from_stride, std::byte* to, Index to_stride) {
  const auto size = static_cast<Index>(sizeof(Item));
  for (Index i = 0; i < n; i++) std::memcpy(to + i * to_stride * size, from + i * from_stride * size, sizeof(Item));
}

}  // namespace

void copy_box(std::span<const Index> extents, std::size_t item, const std::byte* from, std::span<const Index> from_strides,
              std::byte* to, std::span<const Index> to_strides) {
  std::size_t outer = extents.size();  // the dims from here on are one contiguous run on both sides
  Index run = 1;
  while (outer > 0 && (extents[outer - 1] == 1 || (from_strides[outer - 1] == run && to_strides[outer - 1] == run)))
    run *= extents[--outer];
  if (run == 0) return;
  Index row = 1, from_step = 0, to_step = 0;  // the last of the outer dims, copied by one loop where a run is one item
  if (run == 1 && outer > 0) {
    outer--;
    row = extents[outer], from_step = from_strides[outer], to_step = to_strides[outer];
  }
  Index left = 1;
  for (std::size_t d = 0; d < outer; d++) left *= extents[d];
  std::vector<Index> at(outer, 0);
  Index source = 0, target = 0;
  for (; left > 0; left--) {
    const std::byte* const in = from + source * static_cast<Index>(item);
    std::byte* const out = to + target * static_cast<Index>(item);
    if (row > 1 && item == 4)
      copy_items<std::uint32_t>(row, in, from_step, out, to_step);
    else if (row > 1 && item == 8)
      copy_items<std::uint64_t>(row, in, from_step, out, to_step);
    else
      for (Index i = 0; i < row; i++)
        std::memcpy(out + i * to_step * static_cast<Index>(item), in + i * from_step * static_cast<Index>(item),
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

std::vector<Index> extents_of(const Box& box) {
  std::vector<Index> out;
  for (const Range& r : box) out.push_back(r.size());
  return out;
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
