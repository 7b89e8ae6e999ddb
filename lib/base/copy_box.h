// SPDX-License-Identifier: Apache-2.0
// The plain loop that moves a box between two places in memory.
#pragma once
#include <motley/dims.h>

#include <cstddef>
#include <span>

namespace motley {

// to[i . to_strides] = from[i . from_strides] for every i below extents; strides in items of `item` bytes, one per extent. The two
// memory areas do not overlap. Runs that are contiguous on both sides are copied as one.
void copy_box(std::span<const Index> extents, std::size_t item, const std::byte* from, std::span<const Index> from_strides,
              std::byte* to, std::span<const Index> to_strides);

std::vector<Index> extents_of(const Box& box);
// Strides of the dims of a box that is stored row-major and contiguous.
std::vector<Index> row_major(std::span<const Index> extents);
std::vector<Index> row_major(const Box& box);
// The offset, in items, of `at` in memory that holds `box` with these strides.
Index item_of(const Box& box, std::span<const Index> strides, const Box& at);

}  // namespace motley
