// SPDX-License-Identifier: Apache-2.0
#include "base/copy_box.h"

#include <cstdint>
#include <cstring>

#include "base/box_rows.h"

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
  const auto size = static_cast<Index>(item);
  for_each_row(extents, from_strides, to_strides, [&](const BoxRow& row) {
    const std::byte* const in = from + row.a * size;
    std::byte* const out = to + row.b * size;
    if (row.a_step == 1 && row.b_step == 1)
      std::memcpy(out, in, static_cast<std::size_t>(row.length) * item);
    else if (item == 4)
      copy_items<std::uint32_t>(row.length, in, row.a_step, out, row.b_step);
    else if (item == 8)
      copy_items<std::uint64_t>(row.length, in, row.a_step, out, row.b_step);
    else
      for (Index i = 0; i < row.length; i++) std::memcpy(out + i * row.b_step * size, in + i * row.a_step * size, item);
  });
}

std::vector<Index> extents_of(const Box& box) {
  std::vector<Index> out;
  for (const Range& r : box) out.push_back(r.size());
  return out;
}

std::vector<Index> row_major(std::span<const Index> extents) {
  std::vector<Index> strides(extents.size(), 1);
  for (std::size_t d = extents.size(); d-- > 1;) strides[d - 1] = strides[d] * extents[d];
  return strides;
}

std::vector<Index> row_major(const Box& box) {
  return row_major(extents_of(box));
}

Index item_of(const Box& box, std::span<const Index> strides, const Box& at) {
  Index item = 0;
  for (std::size_t d = 0; d < box.size(); d++) item += (at[d].begin - box[d].begin) * strides[d];
  return item;
}

}  // namespace motley
