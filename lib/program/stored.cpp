// SPDX-License-Identifier: Apache-2.0
#include "program/stored.h"

#include <algorithm>

#include "base/at.h"
#include "plan/kernel_of.h"
#include "plan/tiles.h"

namespace motley {

int Program::buffer_of(int tensor, Stored::As as, const Box& box) const {
  for (const Stored& s : at(stored, tensor))
    if (s.as == as && contains(s.box, box)) return s.buffer;
  return -1;
}

// A tensor that arrives tiled is stored tile by tile: all of them are its
// home's and its reader's.
std::vector<Stored> boxes_of(const LocalPlan& plan, int t) {
  std::vector<Stored> out;
  const auto take = [&](Stored::As as, const Box& box) {
    const auto is_same = [&](const Stored& s) { return s.as == as && s.box == box; };
    if (volume(box) > 0 && std::none_of(out.begin(), out.end(), is_same)) out.push_back({as, box});
  };
  const auto take_all = [&](Stored::As as, const std::vector<Shard>& shards) {
    for (const Shard& s : shards)
      if (s.rank == plan.rank()) take(as, s.box);
  };
  const TensorPlan& of = plan.plan_of(t);
  for (int p : plan.writers(t))
    if (plan.works(p) && plan.direct(p)) take(Stored::As::made, operand_box(plan.pass(p).writes, plan.work_of(p).box));
  if (plan.tensor(t).role != TensorRole::parameter) take_all(Stored::As::owner, of.owners);
  if (of.arriving().tiles > 0) {
    for (const Box& tile : arriving_tiles(plan.data(), t, plan.rank()))
      for (const Stored::As as : {Stored::As::home, Stored::As::reader})
        if (!tile.empty()) take(as, tile);
    return out;
  }
  take_all(Stored::As::home, of.home);
  take_all(Stored::As::reader, of.readers);
  for (int p : plan.readers(t))
    for (const PassOperand& o : plan.pass(p).reads)
      if (o.tensor == t && plan.works(p)) take(Stored::As::reader, operand_box(o, plan.work_of(p).box));
  return out;
}

namespace {

// Per box the first box that contains it and is not inside another one; itself
// where there is none.
std::vector<std::size_t> outermost(std::span<const Box> boxes) {
  std::vector<std::size_t> in(boxes.size());
  for (std::size_t i = 0; i < boxes.size(); i++) {
    in[i] = i;
    for (std::size_t k = 0; k < boxes.size() && in[i] == i; k++)
      if (k != i && contains(boxes[k], boxes[i]) && (k < i || boxes[k] != boxes[i])) in[i] = k;
  }
  for (std::size_t& k : in)
    while (in[k] != k) k = in[k];
  return in;
}

}  // namespace

std::vector<std::size_t> buffers_for(std::span<const Box> boxes) {
  std::vector<std::size_t> in = outermost(boxes),
                           left;  // left: buffers, each named by one of its boxes
  std::vector<Box> hulls(boxes.begin(), boxes.end());
  for (std::size_t i = 0; i < boxes.size(); i++)
    if (in[i] == i) left.push_back(i);
  for (bool joined = true; joined;) {  // the two that save most memory as one,
                                       // while two do not need more
    joined = false;
    Index most = 0;
    std::size_t into = 0, from = 0;
    for (std::size_t a : left)
      for (std::size_t b : left) {
        const Index saved = a < b ? volume(hulls[a]) + volume(hulls[b]) - volume(hull(hulls[a], hulls[b])) : -1;
        if (saved < most || (joined && saved == most)) continue;
        most = saved;
        into = a;
        from = b;
        joined = true;
      }
    if (!joined) break;
    hulls[into] = hull(hulls[into], hulls[from]);
    std::erase(left, from);
    std::replace(in.begin(), in.end(), from, into);
  }
  left.clear();
  for (std::size_t& k : in) {
    if (std::find(left.begin(), left.end(), k) == left.end()) left.push_back(k);
    k = static_cast<std::size_t>(std::find(left.begin(), left.end(), k) - left.begin());
  }
  return in;
}

}  // namespace motley
