// SPDX-License-Identifier: Apache-2.0
#include "program/views.h"

#include <motley/error.h>

#include "base/at.h"
#include "plan/kernel_of.h"

namespace motley {

View dense_view(int buffer, Format format, const std::vector<Index>& extents) {
  return {buffer, 0, strides_of(format, extents), extents};
}

View part_of(const View& view, const Box& of, const Box& box) {
  check(contains(of, box), "a view is inside its buffer");
  View v{view.buffer, view.element, view.strides, extents_of(box)};
  for (std::size_t d = 0; d < box.size(); d++) v.element += (box[d].begin - of[d].begin) * v.strides[d];
  return v;
}

View view_of(const Buffer& buffer, int id, const Box& box) {
  check(contains(buffer.box, box), "a view is inside its buffer");
  View v{id, 0, strides_of(buffer.format, extents_of(buffer.box)), extents_of(box)};
  for (std::size_t d = 0; d < box.size(); d++) v.element += (box[d].begin - buffer.box[d].begin) * v.strides[d];
  return v;
}

bool is_dense(const View& view, Format format) {
  const std::vector<Index> dense = strides_of(format, view.extents);
  for (std::size_t d = 0; d < view.extents.size(); d++)
    if (view.extents[d] > 1 && view.strides[d] != dense[d]) return false;
  return true;
}

void lay_along(KernelSpec& map, const std::vector<View>& views, const std::vector<std::vector<int>>& dims) {
  for (std::size_t k = 0; k < views.size(); k++) {
    std::vector<Index>& strides = map.operands[k].strides;
    strides.assign(map.extents.size(), 0);
    for (std::size_t d = 0; d < dims[k].size(); d++) at(strides, dims[k][d]) = views[k].strides[d];
  }
}

KernelSpec copy_of(DType dtype, const View& from, const View& to) {
  return map_kernel({}, dtype, to.extents, {from.strides, to.strides});
}

KernelSpec sum_of(DType dtype, const std::vector<View>& views) {
  std::vector<std::vector<Index>> strides;
  for (const View& v : views) strides.push_back(v.strides);
  return sum_kernel(dtype, views.back().extents, std::move(strides));
}

}  // namespace motley
