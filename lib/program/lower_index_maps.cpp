// SPDX-License-Identifier: Apache-2.0
// Changes of shape -> copies: a side whose mapped dims are one contiguous row-major run is traversed along the other side's dims.
#include <motley/error.h>

#include <algorithm>

#include "plan/index_maps.h"
#include "program/lowerer.h"

namespace motley {

namespace {

// One side of an index map on this rank: its dims in a view of an operand.
struct Digits {
  std::vector<Index> sizes{}, extents{}, strides{};  // sizes: of the whole dims
  Range numbers{};                                   // from the first to the last
  Index count() const {
    Index n = 1;
    for (Index e : extents) n *= e;
    return n;
  }
  // Elements between consecutive numbers, if that is the same everywhere; 0: it is not.
  Index unit() const {
    Index inner = 1, unit = 0;
    for (std::size_t k = sizes.size(); k-- > 0;) {
      if (extents[k] > 1) {
        if (unit == 0 && strides[k] % inner == 0) unit = strides[k] / inner;
        if (unit == 0 || strides[k] != inner * unit) return 0;
      }
      inner *= sizes[k];
    }
    return unit == 0 ? 1 : unit;
  }
};

Digits digits_of(const Pass& pass, const std::vector<int>& indices, const PassOperand& operand, const View& view, const Box& work) {
  Digits out;
  Box box;
  for (int i : indices) {
    const auto dim =
        static_cast<std::size_t>(std::find(operand.indices.begin(), operand.indices.end(), i) - operand.indices.begin());
    out.sizes.push_back(at(pass.indices, i).size);
    out.extents.push_back(view.extents[dim]);
    out.strides.push_back(view.strides[dim]);
    box.push_back(at(work, i));
  }
  out.numbers = numbers_of(out.sizes, box);
  return out;
}

// A traversal of both sides at once.
struct Walk {
  View from{}, to{};
  void add(Index extent, Index from_stride, Index to_stride) {
    from.extents.push_back(extent);
    to.extents.push_back(extent);
    from.strides.push_back(from_stride);
    to.strides.push_back(to_stride);
  }
  // False: neither side is one run that can be traversed along the other side's dims.
  bool add(const Digits& read, const Digits& made, Index offset) {
    if (const Index unit = read.unit(); unit != 0) {
      from.element += (made.numbers.begin + offset - read.numbers.begin) * unit;
      Index inner = unit;
      for (std::size_t k = made.sizes.size(); k-- > 0; inner *= made.sizes[k]) add(made.extents[k], inner, made.strides[k]);
      return true;
    }
    const Index unit = made.unit();
    if (unit == 0 || made.count() != read.count()) return false;
    Index inner = unit;
    for (std::size_t k = read.sizes.size(); k-- > 0; inner *= read.sizes[k]) add(read.extents[k], read.strides[k], inner);
    return true;
  }
};

bool is_mapped(const Pass& pass, int index) {
  auto has = [&](const std::vector<int>& side) { return std::find(side.begin(), side.end(), index) != side.end(); };
  return std::any_of(pass.index_maps.begin(), pass.index_maps.end(), [&](const IndexMap& l) { return has(l.read) || has(l.made); });
}

std::optional<Walk> walk_of(const Pass& pass, const Box& work, const View& from, const View& to) {
  const PassOperand &read = pass.reads.front(), &made = pass.writes;
  Walk walk{{from.buffer, from.element, {}, {}}, {to.buffer, to.element, {}, {}}};
  for (std::size_t d = 0; d < made.indices.size(); d++) {
    if (is_mapped(pass, made.indices[d])) continue;
    const auto dim =
        static_cast<std::size_t>(std::find(read.indices.begin(), read.indices.end(), made.indices[d]) - read.indices.begin());
    walk.add(to.extents[d], from.strides[dim], to.strides[d]);
  }
  for (const IndexMap& map : pass.index_maps)
    if (!walk.add(digits_of(pass, map.read, read, from, work), digits_of(pass, map.made, made, to, work), map.offset))
      return std::nullopt;
  return walk;
}

}  // namespace

void Lowerer::emit_index_maps(int p, const std::vector<View>& views) {
  const Pass& it = plan_.pass(p);
  const Box& work = plan_.work_of(p).box;
  std::optional<Walk> walk = walk_of(it, work, views[0], views[1]);
  if (!walk) {  // makes the read side one run: mapped dims last, in the index_maps' order
    const std::vector<int>& indices = it.reads.front().indices;
    std::vector<int> order;
    for (std::size_t d = 0; d < indices.size(); d++)
      if (!is_mapped(it, indices[d])) order.push_back(static_cast<int>(d));
    for (const IndexMap& map : it.index_maps)
      for (int i : map.read) order.push_back(static_cast<int>(std::find(indices.begin(), indices.end(), i) - indices.begin()));
    View run = views[0];
    const Place here = dense(run, order, Format::plain, it.name);
    std::vector<Index> extents;
    for (int d : order) extents.push_back(at(run.extents, d));
    const std::vector<Index> strides = strides_of(Format::plain, extents);
    for (std::size_t k = 0; k < order.size(); k++) at(run.strides, order[k]) = strides[k];
    run.buffer = here.buffer;
    run.element = here.element;
    walk = walk_of(it, work, run, views[1]);
    check(walk.has_value(), "a dense block is one run");
  }
  draft_.copy(walk->from, walk->to, it.name);
}

}  // namespace motley
