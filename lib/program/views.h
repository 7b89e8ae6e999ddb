// SPDX-License-Identifier: Apache-2.0
// Views into buffers while a Program is compiled.
#pragma once
#include <motley/program.h>

#include <vector>

#include "base/copy_box.h"
#include "graph/passes.h"

namespace motley {

// Part of a buffer: the element of its first value, and a stride and an extent per dim (of a tensor, or as the reader defines).
struct View {
  int buffer = -1;
  Index element = 0;
  std::vector<Index> strides{}, extents{};
};

// The part `box` of a buffer whose own box contains it.
View view_of(const Buffer& buffer, int id, const Box& box);
View dense_view(int buffer, Format format, const std::vector<Index>& extents);  // starting at the buffer's first element
View part_of(const View& view, const Box& of, const Box& box);                  // `of` is what the view shows, `box` is in it
bool is_dense(const View& view, Format format);                                 // in the order of `format`, without gaps
// A copy over all dims of the views (the same in both), the result's last dim innermost.
KernelSpec copy_of(DType dtype, const View& from, const View& to);
KernelSpec sum_of(DType dtype, const std::vector<View>& views);
// The same for a map whose extent i is dim d of view k where dims[k][d] == i: the operands' strides are taken from the views.
void lay_along(KernelSpec& map, const std::vector<View>& views, const std::vector<std::vector<int>>& dims);

// Calls visit(buffer) for each buffer that a step reads or writes. A Wait uses the buffers of its Post.
template <class F>
void for_buffers(const Post& post, F visit) {
  for (const auto* pieces : {&post.sends, &post.receives})
    for (const Piece& piece : *pieces) visit(piece.at.buffer);
}
template <class What, class F>
void for_buffers(const What& what, F visit) {
  if (const auto* run = std::get_if<RunKernel>(&what))
    for (const Place& p : run->operands) visit(p.buffer);
  if (const auto* post = std::get_if<Post>(&what)) for_buffers(*post, visit);
}

}  // namespace motley
