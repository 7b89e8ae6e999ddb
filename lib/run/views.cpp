// SPDX-License-Identifier: Apache-2.0
#include "run/views.h"

#include <motley/error.h>

#include <numeric>

#include "kernels/operands.h"
#include "plan/kernel_of.h"

namespace motley {

std::vector<Index> extents_of(const Box& box) {
  std::vector<Index> out;
  for (const Range& r : box) out.push_back(r.size());
  return out;
}

View dense_view(int buffer, Format format, const std::vector<Index>& extents) {
  View v{buffer, 0, strides_of(format, extents), extents};
  if (v.block = block_of(format); v.block > 1) v.blocked = 1;
  return v;
}

View part_of(const View& view, const Box& of, const Box& box) {
  check(contains(of, box), "a view lies inside its buffer");
  View v = view;
  v.extents = extents_of(box);
  for (std::size_t d = 0; d < box.size(); d++) {
    const Index skipped = box[d].begin - of[d].begin, each = static_cast<int>(d) == v.blocked ? v.block : 1;
    check(skipped % each == 0 && v.extents[d] % each == 0, "a view of blocks has whole ones");
    v.element += skipped / each * v.strides[d];
  }
  return v;
}

View view_of(const Buffer& buffer, int id, const Box& box) { return part_of(dense_view(id, buffer.format, extents_of(buffer.box)), buffer.box, box); }

bool is_dense(const View& view, Format format) {
  const View dense = dense_view(view.buffer, format, view.extents);
  if (view.blocked != dense.blocked || view.block != dense.block) return false;
  for (std::size_t d = 0; d < view.extents.size(); d++)
    if (view.extents[d] > (static_cast<int>(d) == view.blocked ? view.block : 1) && view.strides[d] != dense.strides[d]) return false;
  return true;
}

void lay_along(KernelSpec& fold, const std::vector<View>& views, const std::vector<std::vector<int>>& dims) {
  std::vector<Index> blocks(fold.fold_extents.size(), 1);
  for (std::size_t k = 0; k < views.size(); k++)
    if (views[k].blocked >= 0) {
      Index& block = blocks[static_cast<std::size_t>(dims[k][static_cast<std::size_t>(views[k].blocked)])];
      check(block == 1 || block == views[k].block, "blocks of one size");
      block = views[k].block;
    }
  for (std::size_t k = 0; k < views.size(); k++) {
    std::vector<Index> whole(blocks.size(), 0), inner(blocks.size(), 0);
    for (std::size_t d = 0; d < dims[k].size(); d++) {
      const auto i = static_cast<std::size_t>(dims[k][d]);
      const bool in_blocks = static_cast<int>(d) == views[k].blocked;
      whole[i] = in_blocks || views[k].strides[d] == 0 ? views[k].strides[d] : views[k].strides[d] * blocks[i];
      inner[i] = in_blocks ? 1 : views[k].strides[d];
    }
    std::vector<Index>& strides = fold.operands[k].strides;
    strides.clear();
    for (std::size_t i = 0; i < blocks.size(); i++) {
      strides.push_back(whole[i]);
      if (blocks[i] > 1) strides.push_back(inner[i]);
    }
  }
  std::vector<Index> extents;
  for (std::size_t i = 0; i < blocks.size(); i++) {
    if (fold.class_dim == static_cast<int>(i)) {
      check(blocks[i] == 1, "classes do not lie in blocks");
      fold.class_dim = static_cast<int>(extents.size());
    }
    extents.push_back(fold.fold_extents[i] / blocks[i]);
    if (blocks[i] > 1) extents.push_back(blocks[i]);
  }
  fold.fold_extents = std::move(extents);
}

KernelSpec fold_of(FoldKind kind, DType dtype, const std::vector<View>& views) {
  std::vector<int> dims(views.back().extents.size());
  std::iota(dims.begin(), dims.end(), 0);
  KernelSpec spec = fold_kernel(kind, dtype, views.back().extents, std::vector<std::vector<Index>>(views.size()));
  lay_along(spec, views, std::vector<std::vector<int>>(views.size(), dims));
  return spec;
}

Index position_of(const Shape& shape, const std::vector<Index>& at) {
  Index position = 0;
  for (std::size_t d = 0; d < at.size(); d++) position = position * shape[d].size + at[d];
  return position;
}

Index element_of(const View& view, const Box& box, const std::vector<Index>& at) {
  Index element = 0;
  for (std::size_t d = 0; d < at.size(); d++) {
    const Index k = at[d] - box[d].begin;
    element += static_cast<int>(d) == view.blocked ? k / view.block * view.strides[d] + k % view.block : k * view.strides[d];
  }
  return element;
}

}  // namespace motley
