// SPDX-License-Identifier: Apache-2.0
#include "plan/schedules.h"

#include <motley/partition.h>

#include <algorithm>
#include <map>

#include "base/at.h"
#include "plan/moved_once.h"

namespace motley {

namespace {

// A schedule with more stages must cost at most this share: link costs are not known more exactly.
constexpr double kWorthIt = 0.9;

// A stage for each piece of each sender's, or reader's, messages, so that kernels run on some tiles while others are sent. Pieces
// of the first dim are contiguous in every format. All messages of that rank are divided in the same way: the rank that adds finds
// all partial sums of an element in one stage.
Stages tiled(const std::vector<BoxMessage>& messages, int BoxMessage::*end, int pieces) {
  std::map<int, Range> reach;
  for (const BoxMessage& m : messages) {
    Range& all = reach.emplace(m.*end, m.box.front()).first->second;
    all = {std::min(all.begin, m.box.front().begin), std::max(all.end, m.box.front().end)};
  }
  Stages out;
  for (const auto& [rank, all] : reach)
    for (int k = 0; k < pieces; k++) {
      const Range part = Partition::even(all.size(), pieces).range(k), piece{all.begin + part.begin, all.begin + part.end};
      std::vector<BoxMessage> stage;
      for (BoxMessage m : messages) {
        m.box.front() = intersect(m.box.front(), piece);
        m.tree = static_cast<int>(out.size());
        if (m.*end == rank && volume(m.box) > 0) stage.push_back(std::move(m));
      }
      if (!stage.empty()) out.push_back(std::move(stage));
    }
  return out;
}

Stages staged(const Hop& hop, bool adds, const Schedule& schedule, std::span<const int> hosts) {
  if (hop.tiles > 0) return tiled(hop.messages, adds ? &BoxMessage::to : &BoxMessage::from, hop.tiles);
  return adds ? sum_stages(hop.messages, schedule, hosts) : copy_stages(hop.messages, schedule, hosts);
}

bool leaves_a_host(const Stages& stages, std::span<const int> hosts) {
  auto leaves = [&](const BoxMessage& m) { return m.from != m.to && !hosts.empty() && at(hosts, m.from) != at(hosts, m.to); };
  return std::any_of(stages.begin(), stages.end(),
                     [&](const auto& stage) { return std::any_of(stage.begin(), stage.end(), leaves); });
}

Schedule cheapest(const Hop& hop, bool adds, const PlanData& data, Index item_bytes, const Profile& profile,
                  std::span<const int> machines) {
  const Stages direct = staged(hop, adds, {}, data.hosts);
  if (!leaves_a_host(direct, data.hosts)) return {};
  if (profile.links.empty())
    return staged(hop, adds, {Tree::two_level}, data.hosts).size() > 1 ? Schedule{Tree::two_level} : Schedule{};
  const LinkSeconds link = links_of(profile, data.hosts);
  Schedule best;
  double least = seconds_of(direct, item_bytes, link, machines);
  for (int chunks : {1, 2, 4, 8, 16}) {
    const Schedule by{Tree::two_level, chunks};
    const double seconds = seconds_of(staged(hop, adds, by, data.hosts), item_bytes, link, machines);
    if (seconds >= kWorthIt * least) continue;
    best = by;
    least = seconds;
  }
  return best;
}

// For Wires: hosts by the profile; if it does not have all ranks: by what ranks share memory.
std::vector<int> machines_in(const PlanData& data, const Profile& profile) {
  std::vector<int> out = profile.hosts();
  if (out.size() >= data.predicted.size()) return out;
  out.clear();
  for (const int host : data.hosts) out.push_back(host < 0 ? -1 - host : host);
  return out;
}

}  // namespace

LinkSeconds links_of(const Profile& profile, std::span<const int> hosts) {
  return [&profile, hosts](int from, int to, Index bytes) -> MessageSeconds {
    if (!hosts.empty() && at(hosts, from) == at(hosts, to))
      return {profile.in_place_seconds(from, to, bytes).seconds + profile.exchange_seconds(from, to).seconds};
    return {profile.seconds(from, to, bytes).seconds, profile.card_seconds(from, to, bytes)};
  };
}

std::array<Stages, 3> stages_of(const TensorPlan& plan, std::span<const int> hosts) {
  return {staged(plan.add, true, plan.add.schedule, hosts), staged(plan.copy, false, plan.copy.schedule, hosts),
          staged(plan.fill, false, plan.fill.schedule, hosts)};
}

namespace {

// times: per tensor, how often it is moved.
std::vector<Index> received(const PlanData& data, const std::vector<Index>& times) {
  std::vector<Index> out(data.predicted.size(), 0);
  for (std::size_t t = 0; t < data.tensors.size(); t++)
    for (const Stages& stages : stages_of(data.tensors[t], data.hosts))
      for (const auto& stage : stages)
        for (const BoxMessage& m : stage)
          if (m.from != m.to) at(out, m.to) += volume(m.box) * item_bytes(data, t) * times[t];
  return out;
}

}  // namespace

void count_bytes(PlanData& data) {
  const std::vector<Index> bytes = received(data, moves_per_step(data));
  for (std::size_t r = 0; r < bytes.size(); r++) data.predicted[r].bytes = bytes[r];
}

std::vector<Index> kept_bytes(const PlanData& data) {
  const std::vector<bool> once = moved_once(data);
  return received(data,
                  data.passes.accumulate > 1 ? std::vector<Index>(once.size(), 0) : std::vector<Index>(once.begin(), once.end()));
}

void choose_schedules(PlanData& data, const Profile& profile) {
  const std::vector<int> machines = machines_in(data, profile);
  for (std::size_t t = 0; t < data.tensors.size(); t++) {
    const Index item = item_bytes(data, t);
    for (const auto of : kHops) {
      Hop& hop = data.tensors[t].*of;
      hop.schedule = cheapest(hop, of == &TensorPlan::add, data, item, profile, machines);
    }
  }
  count_bytes(data);
}

}  // namespace motley
