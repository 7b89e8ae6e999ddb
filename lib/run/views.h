// SPDX-License-Identifier: Apache-2.0
// Views into buffers while a Program is compiled.
#pragma once
#include <motley/program.h>

#include <vector>

#include "graph/passes.h"

namespace motley {

// Part of a buffer: element of its first value, a stride and an extent per dim (of a tensor, or of whatever the reader names).
struct View {
  int buffer = -1;
  Index element = 0;
  std::vector<Index> strides{}, extents{};
};

std::vector<Index> extents_of(const Box& box);
// The part `box` of a buffer whose box holds it. Not for blocked formats.
View view_of(const Buffer& buffer, int id, const Box& box);
// True where the view's strides are `dense` wherever an extent is above 1.
bool has_strides(const View& view, const std::vector<Index>& dense);
bool is_dense(const View& view, Format format);  // in that order, without gaps

}  // namespace motley
