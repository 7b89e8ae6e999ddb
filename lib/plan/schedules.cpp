// SPDX-License-Identifier: Apache-2.0
#include "plan/schedules.h"

#include <motley/partition.h>

#include <algorithm>
#include <map>
#include <random>

namespace motley {

Routes straight_routes(const PlanData& data) {
  Routes out(data.predicted.size());
  for (std::size_t root = 0; root < out.size(); root++) out[root].assign(out.size(), static_cast<int>(root));
  return out;
}

namespace {

// A schedule of more stages must be that much cheaper: what a link costs is not known better.
constexpr double kWorthIt = 0.9;
constexpr Index kRouteBytes = Index{1} << 20;  // of a message by which ways are compared

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

Stages staged(const TensorPlan& plan, std::size_t move, const Schedule& by, std::span<const int> hosts, const Routes& routes) {
  if (move == 0 && plan.leaves_in_blocks > 0) return in_blocks(plan.first, &BoxMessage::to, plan.leaves_in_blocks);
  if (move != 0 && plan.arrives_in_blocks > 0)
    return in_blocks(move == 1 ? plan.second : plan.third, &BoxMessage::from, plan.arrives_in_blocks);
  if (move == 0) return sum_stages(plan.first, by, hosts, routes);
  return copy_stages(move == 1 ? plan.second : plan.third, by, hosts, routes);
}

bool leaves_a_host(const Stages& stages, std::span<const int> hosts) {
  auto leaves = [&](const BoxMessage& m) {
    return m.from != m.to && !hosts.empty() && hosts[static_cast<std::size_t>(m.from)] != hosts[static_cast<std::size_t>(m.to)];
  };
  return std::any_of(stages.begin(), stages.end(),
                     [&](const auto& stage) { return std::any_of(stage.begin(), stage.end(), leaves); });
}

Schedule cheapest(const TensorPlan& plan, std::size_t move, const PlanData& data, Index item_bytes, const Profile& profile) {
  const Stages direct = staged(plan, move, {}, data.hosts, {});
  if (!leaves_a_host(direct, data.hosts)) return {};
  if (profile.links.empty())
    return staged(plan, move, {Tree::two_level}, data.hosts, {}).size() > 1 ? Schedule{Tree::two_level} : Schedule{};
  const LinkSeconds link = [&](int from, int to, Index bytes) { return profile.seconds(from, to, bytes).seconds; };
  Schedule best;
  double least = seconds_of(direct, item_bytes, link);
  std::vector<Schedule> others{{Tree::halving}};
  for (int chunks : {1, 2, 4, 8, 16})
    for (Tree tree : {Tree::two_level, Tree::ring, Tree::routed})
      if (tree != Tree::routed || !data.routes.empty()) others.push_back({tree, chunks});
  for (const Schedule& by : others) {
    const double seconds = seconds_of(staged(plan, move, by, data.hosts, data.routes), item_bytes, link);
    if (seconds >= kWorthIt * least) continue;
    best = by;
    least = seconds;
  }
  return best;
}

Schedule any(std::mt19937& random) {
  const auto tree = static_cast<Tree>(random() % 5);
  return {tree, tree == Tree::direct || tree == Tree::halving ? 1 : 1 + static_cast<int>(random() % 4)};
}

Routes any_routes(const PlanData& data, std::mt19937& random) {
  Routes out = straight_routes(data);
  for (int root : data.busy) {
    std::vector<int> reached{root}, left = data.busy;
    std::shuffle(left.begin(), left.end(), random);
    for (int r : left)
      if (r != root) {
        out[static_cast<std::size_t>(root)][static_cast<std::size_t>(r)] = reached[random() % reached.size()];
        reached.push_back(r);
      }
  }
  return out;
}

}  // namespace

void go_straight(PlanData& data) {
  for (TensorPlan& t : data.tensors)
    for (Schedule& by : t.by)
      if (by.tree == Tree::routed) by = {};
  data.routes.clear();
  count_bytes(data);
}

bool is_routed(const PlanData& data) {
  return std::any_of(data.tensors.begin(), data.tensors.end(), [](const TensorPlan& t) {
    return std::any_of(t.by.begin(), t.by.end(), [](const Schedule& by) { return by.tree == Tree::routed; });
  });
}

std::array<Stages, 3> stages_of(const TensorPlan& plan, std::span<const int> hosts, const Routes& routes) {
  return {staged(plan, 0, plan.by[0], hosts, routes), staged(plan, 1, plan.by[1], hosts, routes), staged(plan, 2, plan.by[2], hosts, routes)};
}

// Dijkstra's algorithm from each root.
Routes routes_of(const PlanData& data, const Profile& profile) {
  if (profile.links.empty()) return {};
  std::map<std::pair<int, int>, double> links;
  for (int a : data.busy)
    for (int b : data.busy) links[{a, b}] = profile.seconds(a, b, kRouteBytes).seconds;
  auto seconds = [&](int from, int to) { return links.at({from, to}); };
  Routes out = straight_routes(data);
  bool any = false;
  for (int root : data.busy) {
    std::map<int, std::pair<double, int>> open;  // seconds to the root, next rank
    for (int r : data.busy)
      if (r != root) open[r] = {kWorthIt * seconds(r, root), root};
    while (!open.empty()) {
      const auto least = std::min_element(open.begin(), open.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
      const auto [rank, way] = *least;
      const double takes = way.second == root ? seconds(rank, root) : way.first;
      out[static_cast<std::size_t>(root)][static_cast<std::size_t>(rank)] = way.second;
      any = any || way.second != root;
      open.erase(least);
      for (auto& [r, best] : open) best = std::min(best, {takes + seconds(r, rank), rank});
    }
  }
  return any ? out : Routes{};
}

double seconds_of(const Stages& stages, Index item_bytes, const LinkSeconds& link) {
  double sum = 0;
  for (const auto& stage : stages) sum += seconds_of(stage, item_bytes, link);
  return sum;
}

void count_bytes(PlanData& data) {
  for (PredictedRank& r : data.predicted) r.bytes = 0;
  for (std::size_t t = 0; t < data.tensors.size(); t++) {
    const Index item = static_cast<Index>(bytes_of(data.passes.tensors[t].dtype == DType::i32 ? DType::i32 : data.dtype));
    for (const Stages& stages : stages_of(data.tensors[t], data.hosts, data.routes))
      for (const auto& stage : stages)
        for (const BoxMessage& m : stage)
          if (m.from != m.to) data.predicted[static_cast<std::size_t>(m.to)].bytes += volume(m.box) * item;
  }
}

void choose_schedules(PlanData& data, const Profile& profile, unsigned random) {
  std::mt19937 numbers(random);
  data.routes = random != 0 ? any_routes(data, numbers) : routes_of(data, profile);
  for (std::size_t t = 0; t < data.tensors.size(); t++) {
    const Index item = static_cast<Index>(bytes_of(data.passes.tensors[t].dtype == DType::i32 ? DType::i32 : data.dtype));
    TensorPlan& plan = data.tensors[t];
    for (std::size_t move = 0; move < 3; move++) plan.by[move] = random != 0 ? any(numbers) : cheapest(plan, move, data, item, profile);
  }
  if (!is_routed(data)) data.routes.clear();
  count_bytes(data);
}

}  // namespace motley
