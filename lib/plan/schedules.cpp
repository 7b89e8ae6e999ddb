// SPDX-License-Identifier: Apache-2.0
#include "plan/schedules.h"

#include <motley/partition.h>

#include <algorithm>
#include <map>

namespace motley {

namespace {

// A schedule of more stages must be that much cheaper: what a link costs is not known better.
constexpr double kWorthIt = 0.9;

// A stage for each slab of each sender, or reader, so that kernels run on some blocks while others travel. Slabs of the first dim lie
// in one piece in every format. The same for all messages of that rank: who adds finds all terms of an element in one stage.
Stages in_blocks(const std::vector<BoxMessage>& messages, int BoxMessage::*end, int slabs) {
  std::map<int, Range> reach;
  for (const BoxMessage& m : messages) {
    Range& all = reach.emplace(m.*end, m.box.front()).first->second;
    all = {std::min(all.begin, m.box.front().begin), std::max(all.end, m.box.front().end)};
  }
  Stages out;
  for (const auto& [rank, all] : reach)
    for (int k = 0; k < slabs; k++) {
      const Range part = Partition::even(all.size(), slabs).range(k), slab{all.begin + part.begin, all.begin + part.end};
      std::vector<BoxMessage> stage;
      for (BoxMessage m : messages) {
        m.box.front() = intersect(m.box.front(), slab);
        m.tree = static_cast<int>(out.size());
        if (m.*end == rank && volume(m.box) > 0) stage.push_back(std::move(m));
      }
      if (!stage.empty()) out.push_back(std::move(stage));
    }
  return out;
}

Stages staged(const TensorPlan& plan, std::size_t move, const Schedule& by, std::span<const int> hosts) {
  if (move == 0 && plan.leaves_in_blocks > 0) return in_blocks(plan.first, &BoxMessage::to, plan.leaves_in_blocks);
  if (move != 0 && plan.arrives_in_blocks > 0)
    return in_blocks(move == 1 ? plan.second : plan.third, &BoxMessage::from, plan.arrives_in_blocks);
  if (move == 0) return sum_stages(plan.first, by, hosts);
  return copy_stages(move == 1 ? plan.second : plan.third, by, hosts);
}

bool leaves_a_host(const Stages& stages, std::span<const int> hosts) {
  auto leaves = [&](const BoxMessage& m) {
    return m.from != m.to && !hosts.empty() && hosts[static_cast<std::size_t>(m.from)] != hosts[static_cast<std::size_t>(m.to)];
  };
  return std::any_of(stages.begin(), stages.end(),
                     [&](const auto& stage) { return std::any_of(stage.begin(), stage.end(), leaves); });
}

Schedule cheapest(const TensorPlan& plan, std::size_t move, const PlanData& data, Index item_bytes, const Profile& profile) {
  const Stages direct = staged(plan, move, {}, data.hosts);
  if (!leaves_a_host(direct, data.hosts)) return {};
  if (profile.links.empty())
    return staged(plan, move, {Tree::two_level}, data.hosts).size() > 1 ? Schedule{Tree::two_level} : Schedule{};
  const LinkSeconds link = [&](int from, int to, Index bytes) { return profile.seconds(from, to, bytes).seconds; };
  Schedule best;
  double least = seconds_of(direct, item_bytes, link);
  for (int chunks : {1, 2, 4, 8, 16}) {
    const Schedule by{Tree::two_level, chunks};
    const double seconds = seconds_of(staged(plan, move, by, data.hosts), item_bytes, link);
    if (seconds >= kWorthIt * least) continue;
    best = by;
    least = seconds;
  }
  return best;
}

}  // namespace

std::array<Stages, 3> stages_of(const TensorPlan& plan, std::span<const int> hosts) {
  return {staged(plan, 0, plan.by[0], hosts), staged(plan, 1, plan.by[1], hosts), staged(plan, 2, plan.by[2], hosts)};
}

void count_bytes(PlanData& data) {
  for (PredictedRank& r : data.predicted) r.bytes = 0;
  for (std::size_t t = 0; t < data.tensors.size(); t++) {
    const Index item = static_cast<Index>(bytes_of(data.passes.tensors[t].dtype == DType::i32 ? DType::i32 : data.dtype));
    for (const Stages& stages : stages_of(data.tensors[t], data.hosts))
      for (const auto& stage : stages)
        for (const BoxMessage& m : stage)
          if (m.from != m.to) data.predicted[static_cast<std::size_t>(m.to)].bytes += volume(m.box) * item;
  }
}

void choose_schedules(PlanData& data, const Profile& profile) {
  for (std::size_t t = 0; t < data.tensors.size(); t++) {
    const Index item = static_cast<Index>(bytes_of(data.passes.tensors[t].dtype == DType::i32 ? DType::i32 : data.dtype));
    TensorPlan& plan = data.tensors[t];
    for (std::size_t move = 0; move < 3; move++) plan.by[move] = cheapest(plan, move, data, item, profile);
  }
  count_bytes(data);
}

}  // namespace motley
