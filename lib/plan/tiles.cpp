// SPDX-License-Identifier: Apache-2.0
#include "plan/tiles.h"

#include <motley/error.h>

#include <algorithm>

#include "base/at.h"
#include "base/overlaps.h"
#include "kernels/operands.h"
#include "plan/kernel_of.h"
#include "plan/schedules.h"

namespace motley {

namespace {

const TensorPlan& plan_of(const PlanData& data, int tensor) {
  return at(data.tensors, tensor);
}
const Pass& pass_of(const PlanData& data, int pass) {
  return at(data.passes.passes, pass);
}
const Work* work_of(const PlanData& data, int pass, int rank) {
  const auto& work = at(data.pass_plans, pass).work;
  return work.empty() || !at(work, rank).any ? nullptr : &at(work, rank);
}
int ranks_of(const PlanData& data) {
  return static_cast<int>(data.predicted.size());
}

// Whether kernels that each do a range of this index together do what one kernel does with all of it: range boundaries may be
// anywhere, and if the index is reduced the partial results are added.
bool may_cut(const Pass& p, int index) {
  if (!p.index_maps.empty() || reads_position(p.formula, index) || (p.own.of >= 0 && (index == p.own.of || index == p.own.terms)) ||
      std::find(p.whole.begin(), p.whole.end(), index) != p.whole.end())
    return false;
  if (is_window(p.op) && index != p.roles[0] && (channel_window(p) != nullptr || (index != p.roles[1] && index != p.roles[4])))
    return false;  // with groups, channels determine the filters
  const auto& made = p.writes.indices;
  return p.combine == Combine::add || std::find(made.begin(), made.end(), index) != made.end();
}

// Cuts every part at the tiles of one operand.
bool cut(const Pass& p, const PassOperand& operand, const std::vector<Box>& tiles, std::vector<Box>& parts) {
  std::vector<Box> out;
  for (const Box& part : parts) {
    const Box all = operand_box(operand, part);
    Index covered = 0;
    for (const Box& tile : tiles) {
      if (tile.empty() && !all.empty()) continue;
      const Box piece = intersect(tile, all);
      if (volume(piece) == 0) continue;
      covered += volume(piece);
      out.push_back(part);
      for (std::size_t d = 0; d < all.size(); d++) {
        if (piece[d] == all[d]) continue;
        if (!may_cut(p, operand.indices[d])) return false;
        at(out.back(), operand.indices[d]) = piece[d];
      }
    }
    if (covered != volume(all)) return false;
  }
  parts = std::move(out);
  return true;
}

// Whether each of these passes can be cut at the tiles of what it reads and writes.
bool all_can(const PlanData& data, const std::vector<int>& passes) {
  for (int p : passes)
    for (int r = 0; r < ranks_of(data); r++)
      if (work_of(data, p, r) != nullptr)
        if (const auto parts = parts_of(data, p, r); !parts || (parts->size() > 1 && is_view(pass_of(data, p)))) return false;
  return true;
}

std::vector<int> readers_of(const PlanData& data, int tensor) {
  std::vector<int> out;
  for (std::size_t p = 0; p < data.passes.passes.size(); p++)
    for (const PassOperand& o : data.passes.passes[p].reads)
      if (o.tensor == tensor && (out.empty() || out.back() != static_cast<int>(p))) out.push_back(static_cast<int>(p));
  return out;
}

bool is_whole_value(const PlanData& data, int tensor) {
  const StepTensor& t = at(data.passes.tensors, tensor);
  return t.shape.rank() > 0 && (t.role == TensorRole::activation || t.role == TensorRole::gradient) &&
         std::find(data.passes.outputs.begin(), data.passes.outputs.end(), tensor) == data.passes.outputs.end();
}

bool apart(const std::vector<Box>& boxes) {
  for (std::size_t i = 0; i < boxes.size(); i++)
    for (std::size_t k = i + 1; k < boxes.size(); k++)
      if (!boxes[i].empty() && !boxes[k].empty() && overlaps(boxes[i], boxes[k])) return false;
  return true;
}

}  // namespace

bool is_view(const Pass& p) {
  return is_plain_map(p) && p.writes.indices.size() == p.indices.size() && p.combine == Combine::add;
}

std::vector<Box> arriving_tiles(const PlanData& data, int tensor, int rank) {
  const TensorPlan& plan = plan_of(data, tensor);
  std::vector<Box> out(1);
  for (const Shard& own : plan.owners)
    if (own.rank == rank) out.front() = own.box;
  for (const BoxMessage& m : plan.arriving().messages)
    if (m.to == rank && m.from != rank) out.push_back(m.box);
  return out;
}

std::vector<Box> leaving_tiles(const PlanData& data, int pass, int rank) {
  const Pass& p = pass_of(data, pass);
  const TensorPlan& plan = plan_of(data, p.writes.tensor);
  const std::vector<int> writers = data.passes.writers_of(p.writes.tensor);
  const int k = static_cast<int>(std::find(writers.begin(), writers.end(), pass) - writers.begin());
  std::vector<Box> out;
  auto take = [&](const BoxMessage& m) {
    if (m.from == rank && std::find(m.writers.begin(), m.writers.end(), k) != m.writers.end() &&
        std::find(out.begin(), out.end(), m.box) == out.end())
      out.push_back(m.box);
  };
  const Stages stages = stages_of(plan, data.hosts)[0];
  for (const auto& stage : stages)
    for (const BoxMessage& m : stage)
      if (m.to != rank) take(m);
  for (const BoxMessage& m : plan.add.messages)
    if (m.to == rank) take(m);
  return out;
}

namespace {

// The tiles as a pass finds them on a rank: piece by piece as they arrive, but whole if an earlier pass has read the whole tile.
std::vector<Box> tiles_read(const PlanData& data, int tensor, int pass, int rank) {
  std::vector<Box> whole;
  const std::vector<Box> tiles = arriving_tiles(data, tensor, rank);
  auto reads_all = [&](int before, const Box& tile) {
    const auto& operands = pass_of(data, before).reads;
    return std::any_of(operands.begin(), operands.end(), [&](const PassOperand& o) {
      return o.tensor == tensor && contains(operand_box(o, work_of(data, before, rank)->box), tile);
    });
  };
  for (int p : readers_of(data, tensor))
    if (p < pass && work_of(data, p, rank) != nullptr)
      std::copy_if(tiles.begin() + 1, tiles.end(), std::back_inserter(whole), [&](const Box& b) { return reads_all(p, b); });
  std::vector<Box> out{tiles.front()};
  const TensorPlan& plan = plan_of(data, tensor);
  const Stages stages = stages_of(plan, data.hosts)[&plan.arriving() == &plan.fill ? 2 : 1];
  for (const auto& stage : stages)
    for (const BoxMessage& m : stage) {
      if (m.to != rank || m.from == rank) continue;
      const auto of = std::find_if(whole.begin(), whole.end(), [&](const Box& b) { return contains(b, m.box); });
      const Box& box = of == whole.end() ? m.box : *of;
      if (std::find(out.begin(), out.end(), box) == out.end()) out.push_back(box);
    }
  return out;
}

bool meets(const Box& box, const std::vector<Box>& others) {
  return std::any_of(others.begin(), others.end(), [&](const Box& o) { return overlaps(o, box); });
}
bool some_but_not_all(const Box& box, const std::vector<Box>& others) {
  return meets(box, others) && !subtract(box, others).empty();
}

}  // namespace

std::optional<std::vector<WorkPart>> parts_of(const PlanData& data, int pass, int rank) {
  const Pass& p = pass_of(data, pass);
  std::vector<Box> parts{work_of(data, pass, rank)->box};
  const bool leaves = plan_of(data, p.writes.tensor).add.tiles > 0 && !is_view(p);
  if (leaves && !cut(p, p.writes, leaving_tiles(data, pass, rank), parts)) return std::nullopt;
  for (const PassOperand& o : p.reads)
    if (plan_of(data, o.tensor).arriving().tiles > 0 && !cut(p, o, tiles_read(data, o.tensor, pass, rank), parts))
      return std::nullopt;
  std::vector<Box> kernels;
  for (const Box& part : parts)
    for (Box& box : kernel_boxes(p, part)) kernels.push_back(std::move(box));
  parts = std::move(kernels);
  std::vector<WorkPart> out;
  std::vector<Box> before, after;
  for (const Box& part : parts) after.push_back(operand_box(p.writes, part));
  for (Box& box : parts) {
    const Box made = std::move(after.front());
    after.erase(after.begin());
    if (some_but_not_all(made, before) || some_but_not_all(made, after)) return std::nullopt;
    out.push_back({std::move(box), !meets(made, before), !meets(made, after)});
    before.push_back(made);
  }
  return out;
}

bool may_tile(const PlanData& data, int tensor, Hop TensorPlan::*hop) {
  const TensorPlan& plan = plan_of(data, tensor);
  const bool leaves = hop == &TensorPlan::add;
  if (!is_whole_value(data, tensor) || !(plan.*hop).travels() || (plan.*hop).schedule != Schedule{}) return false;
  if (!leaves) {
    if (plan.copy.travels() == plan.fill.travels() || (plan.fill.travels() && plan.owners != plan.home)) return false;
    for (int r = 0; r < ranks_of(data); r++) {
      if (std::count_if(plan.owners.begin(), plan.owners.end(), [&](const Shard& h) { return h.rank == r; }) > 1) return false;
      if (!apart(arriving_tiles(data, tensor, r))) return false;
    }
  }
  if (!leaves) return all_can(data, readers_of(data, tensor));
  const std::vector<int> writers = data.passes.writers_of(tensor);
  for (int p : writers)
    for (int r = 0; r < ranks_of(data); r++)
      if (work_of(data, p, r) != nullptr && !apart(leaving_tiles(data, p, r))) return false;
  return all_can(data, writers);
}

bool may_overlap(const PlanData& data, const Hop& hop) {
  return std::any_of(hop.messages.begin(), hop.messages.end(),
                     [&](const BoxMessage& m) { return m.from != m.to && is_far(data, m.from, m.to); });
}

bool tile_all(PlanData& data, const std::function<int(const Hop&)>& tiles_of) {
  bool any = false;
  for (int t = 0; t < static_cast<int>(data.tensors.size()); t++) {
    TensorPlan& plan = at(data.tensors, t);
    for (const auto hop : {plan.fill.travels() ? &TensorPlan::fill : &TensorPlan::copy, &TensorPlan::add}) {
      int& tiles = (plan.*hop).tiles = tiles_of(plan.*hop);
      if (tiles > 0 && !may_tile(data, t, hop)) tiles = 0;
      any = any || tiles > 0;
    }
  }
  return any;
}

}  // namespace motley
