// SPDX-License-Identifier: Apache-2.0
#include "run/views.h"

#include <motley/error.h>

namespace motley {

std::vector<Index> extents_of(const Box& box) {
  std::vector<Index> out;
  for (const Range& r : box) out.push_back(r.size());
  return out;
}

View view_of(const Buffer& buffer, int id, const Box& box) {
  check(contains(buffer.box, box), "a view lies inside its buffer");
  View v{id, 0, strides_of(buffer.format, extents_of(buffer.box)), extents_of(box)};
  for (std::size_t d = 0; d < box.size(); d++) v.element += (box[d].begin - buffer.box[d].begin) * v.strides[d];
  return v;
}

bool has_strides(const View& view, const std::vector<Index>& dense) {
  for (std::size_t d = 0; d < dense.size(); d++)
    if (view.extents[d] > 1 && view.strides[d] != dense[d]) return false;
  return true;
}

Index position_of(const Shape& shape, const std::vector<Index>& at) {
  Index position = 0;
  for (std::size_t d = 0; d < at.size(); d++) position = position * shape[d].size + at[d];
  return position;
}

Index element_of(const View& view, const Box& box, const std::vector<Index>& at) {
  Index element = 0;
  for (std::size_t d = 0; d < at.size(); d++) element += (at[d] - box[d].begin) * view.strides[d];
  return element;
}

bool is_dense(const View& view, Format format) { return has_strides(view, strides_of(format, view.extents)); }

}  // namespace motley
