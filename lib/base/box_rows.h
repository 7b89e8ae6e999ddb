// SPDX-License-Identifier: Apache-2.0
// The one walk over a box that is stored in two places: row by row, rows as long as both places allow.
#pragma once
#include <motley/dims.h>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace motley {

// `length` items: the k-th is item a + k * a_step of the first place and item b + k * b_step of the second.
struct BoxRow {
  Index a = 0, b = 0, length = 1, a_step = 1, b_step = 1;
};

// Calls visit(row) for every row of a box with these extents, in row-major order. a, b: the strides of the dims in the two places,
// in items. Dims that both places store as one are joined; an empty box has no rows.
template <class F>
void for_each_row(std::span<const Index> extents, std::span<const Index> a, std::span<const Index> b, F&& visit) {
  struct Walked {
    Index size, a, b;
  };
  std::vector<Walked> dims;
  for (std::size_t d = 0; d < extents.size(); d++) {
    if (extents[d] == 0) return;
    if (extents[d] == 1) continue;
    const Walked one{extents[d], a[d], b[d]};
    if (!dims.empty() && dims.back().a == one.size * one.a && dims.back().b == one.size * one.b)
      dims.back() = {dims.back().size * one.size, one.a, one.b};
    else
      dims.push_back(one);
  }
  BoxRow row;
  if (!dims.empty()) {
    row = {0, 0, dims.back().size, dims.back().a, dims.back().b};
    dims.pop_back();
  }
  std::vector<Index> at(dims.size(), 0);
  for (std::size_t d = 1; d > 0;) {
    visit(std::as_const(row));
    for (d = dims.size(); d > 0; d--) {
      const Walked& its = dims[d - 1];
      row.a += its.a;
      row.b += its.b;
      if (++at[d - 1] < its.size) break;
      row.a -= its.size * its.a;
      row.b -= its.size * its.b;
      at[d - 1] = 0;
    }
  }
}

}  // namespace motley
