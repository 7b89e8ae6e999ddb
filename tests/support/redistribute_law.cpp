// SPDX-License-Identifier: Apache-2.0
#include "tests/support/redistribute_law.h"

#include <algorithm>
#include <set>

namespace motley::law {

namespace {

// Calls visit(at) for every element of the tensor; at: its global indices in the shape's order.
template <class F>
void each(const Shape& shape, F visit) {
  std::vector<Index> at(shape.rank(), 0);
  for (Index left = shape.elements(); left > 0; left--) {
    visit(at);
    for (std::size_t d = shape.rank(); d-- > 0;) {
      if (++at[d] < shape[d].size) break;
      at[d] = 0;
    }
  }
}

bool holds(const LaidOut& lay, int rank, const Shape& shape, const std::vector<Index>& at) {
  if (rank >= lay.mesh.ranks()) return false;
  const Box box = lay.layout.box(lay.mesh, rank);
  for (std::size_t d = 0; d < box.size(); d++) {
    const Index i = at[shape.position(lay.layout.shape[d].name)];
    if (i < box[d].begin || i >= box[d].end) return false;
  }
  return true;
}

// The rank's slice, element by element: global linear index (in `shape`) wherever its box says so, in its layout's own order.
template <class T>
std::vector<T> slice_of(const LaidOut& lay, int rank, const Shape& shape) {
  std::vector<T> out;
  each(lay.layout.shape, [&](const std::vector<Index>& own) {
    std::vector<Index> at(own.size());
    for (std::size_t d = 0; d < own.size(); d++) at[shape.position(lay.layout.shape[d].name)] = own[d];
    if (!holds(lay, rank, shape, at)) return;
    Index linear = 0;
    for (std::size_t d = 0; d < at.size(); d++) linear = linear * shape[d].size + at[d];
    out.push_back(static_cast<T>(linear));
  });
  return out;
}

Index lacks(const LaidOut& from, const LaidOut& to, int rank, const Shape& shape) {
  Index n = 0;
  each(shape, [&](const std::vector<Index>& at) { n += holds(to, rank, shape, at) && !holds(from, rank, shape, at) ? 1 : 0; });
  return n;
}

template <class T>
std::string there_and_back(Transport& transport, const LaidOut& from, const LaidOut& to, const Shape& shape) {
  const int me = transport.rank();
  const std::vector<T> mine = slice_of<T>(from, me, shape);
  const std::int64_t before = transport.bytes_received();
  const std::vector<T> there = redistribute(std::span<const T>(mine), from, to, transport);
  const std::int64_t bytes = transport.bytes_received() - before,
                     right = lacks(from, to, me, shape) * static_cast<Index>(sizeof(T));
  if (there != slice_of<T>(to, me, shape)) return "wrong values";
  if (bytes != right) return std::to_string(bytes) + " bytes counted, " + std::to_string(right) + " by hand";
  if (redistribute(std::span<const T>(there), to, from, transport) != mine) return "the way back is not the identity";
  const std::int64_t start = transport.bytes_received();
  if (redistribute(std::span<const T>(mine), from, from, transport) != mine || transport.bytes_received() != start)
    return "identity moves bytes";
  return "";
}

// Pairs of ranks of which one has something that the other lacks: where no element has two holders, each pair is one message;
// where some have, no others send.
std::string count_messages(const LaidOut& from, const LaidOut& to, const Shape& shape) {
  std::set<std::pair<int, int>> sent, right, possible;
  bool copies = false;
  Index moved = 0;
  for (const BoxMessage& m : moves(from, to))
    if (m.from != m.to) {
      sent.insert({m.from, m.to});
      moved += volume(m.box);
    }
  Index all = 0;
  for (int r = 0; r < to.mesh.ranks(); r++) all += lacks(from, to, r, shape);
  each(shape, [&](const std::vector<Index>& at) {
    std::vector<int> holders;
    for (int r = 0; r < from.mesh.ranks(); r++)
      if (holds(from, r, shape, at)) holders.push_back(r);
    copies = copies || holders.size() > 1;
    for (int r = 0; r < to.mesh.ranks(); r++)
      if (holds(to, r, shape, at) && std::find(holders.begin(), holders.end(), r) == holders.end()) {
        right.insert({holders.front(), r});
        for (const int holder : holders) possible.insert({holder, r});
      }
  });
  if (moved != all) return std::to_string(moved) + " elements in messages, " + std::to_string(all) + " by hand";
  if (copies ? !std::includes(possible.begin(), possible.end(), sent.begin(), sent.end()) : sent != right)
    return "other messages than counted by hand";
  return "";
}

}  // namespace

LaidOut random_lay(Random& random, const Shape& shape, int ranks) {
  std::vector<Axis> axes{{"a", static_cast<int>(pick(random, 1, ranks))}};
  if (const int left = ranks / axes[0].size; left > 1 && chance(random, 0.7))
    axes.push_back({"b", static_cast<int>(pick(random, 1, left))});
  std::vector<Dim> dims = shape.dims();
  if (chance(random, 0.3)) std::shuffle(dims.begin(), dims.end(), random);
  LaidOut lay{mesh_of(axes), {Shape(dims), {}}};
  const bool two = axes.size() == 2;
  auto dim = [&] { return shape[static_cast<std::size_t>(pick(random, 0, static_cast<Index>(shape.rank()) - 1))]; };
  if (two && chance(random, 0.25)) {
    const Dim d = dim();
    lay.layout.cuts[d.name] = {{1, 0}, -1, {Partition::of(parts(random, d.size, axes[0].size * axes[1].size))}};
    return lay;
  }
  for (int a = 0; a < static_cast<int>(axes.size()); a++) {
    const Dim d = dim();
    if (chance(random, 0.25) || lay.layout.cuts.contains(d.name)) continue;
    const int size = axes[static_cast<std::size_t>(a)].size;
    Cut cut{{a}, -1, {Partition::of(parts(random, d.size, size))}};
    const bool circle =
        std::any_of(lay.layout.cuts.begin(), lay.layout.cuts.end(), [](const auto& c) { return c.second.per >= 0; });
    if (two && !circle && chance(random, 0.4)) {
      cut.per = 1 - a;
      while (static_cast<int>(cut.lists.size()) < axes[static_cast<std::size_t>(1 - a)].size)
        cut.lists.push_back(Partition::of(parts(random, d.size, size)));
    }
    lay.layout.cuts[d.name] = cut;
  }
  return lay;
}

std::string redistribute_law(Transport& transport, unsigned number) {
  Random random(number);
  const Shape shape{{"a", pick(random, 1, 6)}, {"b", pick(random, 1, 7)}, {"c", pick(random, 1, 5)}};
  const LaidOut from = random_lay(random, shape, transport.size()), to = random_lay(random, shape, transport.size());
  if (const std::string wrong = count_messages(from, to, shape); !wrong.empty()) return wrong;
  switch (number % 3) {
    case 0: return there_and_back<float>(transport, from, to, shape);
    case 1: return there_and_back<double>(transport, from, to, shape);
    default: return there_and_back<std::int32_t>(transport, from, to, shape);
  }
}

}  // namespace motley::law
