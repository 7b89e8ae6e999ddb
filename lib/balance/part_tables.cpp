// SPDX-License-Identifier: Apache-2.0
#include "balance/part_tables.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include "balance/candidate_sizes.h"
#include "base/at.h"
#include "mesh/parts.h"

namespace motley {

namespace {

constexpr std::size_t kMostSizes = 96;
constexpr Index kEvery = 32;                            // dims up to this size have so few cuts that every size is looked at
constexpr std::size_t kAllSets = 4, kAllPrefixes = 16;  // ranks

bool travels(const TensorPlan& t) {
  return std::any_of(kHops.begin(), kHops.end(), [&](auto hop) { return (t.*hop).travels(); });
}

std::vector<Index> sizes_looked_at(Index size) {
  if (size <= kEvery) {
    std::vector<Index> every(static_cast<std::size_t>(size));
    std::iota(every.begin(), every.end(), Index{1});
    return every;
  }
  std::vector<Index> sizes = candidate_sizes(size);
  return sizes.size() > kMostSizes ? candidate_sizes(size, static_cast<Index>(kMostSizes)) : sizes;
}

// Adds to `sum` the seconds of one pass for all sizes of each part of `v`.
void add_pass(SizeTables& sum, const PlanData& data, const Mesh& mesh, const Cost& cost, const Variable& v, const PartsOf& of,
              int p, int index) {
  const Pass& pass = at(data.passes.passes, p);
  const std::vector<Work>& work = at(data.pass_plans, p).work;
  const auto first = std::find_if(work.begin(), work.end(), [](const Work& w) { return w.any; });
  const std::vector<Index> sizes = sizes_looked_at(v.size);
  std::vector<std::vector<std::pair<Index, double>>> points(static_cast<std::size_t>(v.parts));
  for (Index k : sizes)
    for (auto& of_part : points) of_part.emplace_back(k, 0.0);
  for (int r = 0; r < mesh.ranks(); r++) {
    if (!of.has(mesh, r)) continue;
    const Work& own = at(work, r);
    for (auto& [k, slowest] : at(points, part_of(mesh, v.axes, r)))
      slowest = std::max(slowest, cost.pass(r, p, with_part(own.any ? own.box : first->box, pass, index, v, k)));
  }
  for (std::size_t part = 0; part < points.size(); part++) {
    const std::vector<double> table = step_table(points[part], v.size);
    for (std::size_t k = 0; k < table.size(); k++) sum[part][k] += table[k];
  }
}

SizeTables no_seconds(const Variable& v) {
  return SizeTables(static_cast<std::size_t>(v.parts), std::vector<double>(static_cast<std::size_t>(v.size) + 1, 0.0));
}

}  // namespace

std::vector<bool> open_parts(const Mesh& mesh, const Variable& v, const PartsOf& of) {
  std::vector<bool> out(static_cast<std::size_t>(v.parts), false);
  for (int r = 0; r < mesh.ranks(); r++)
    if (of.has(mesh, r)) at(out, part_of(mesh, v.axes, r)) = true;
  return out;
}

std::vector<SizeTables> tables_of(const PlanData& data, const Mesh& mesh, const Cost& cost, const Variable& v, const PartsOf& of) {
  std::vector<SizeTables> groups;
  bool open = false;
  for (std::size_t p = 0; p < data.passes.passes.size(); p++) {
    const Pass& pass = data.passes.passes[p];
    const PassPlan& plan = data.pass_plans[p];
    if (const int index = plan.work.empty() ? -1 : following(data, mesh, pass, plan, v); index >= 0) {
      if (!open) groups.push_back(no_seconds(v));
      open = true;
      add_pass(groups.back(), data, mesh, cost, v, of, static_cast<int>(p), index);
    }
    const int written = pass.writes.tensor;
    if (data.passes.writers_of(written).back() == static_cast<int>(p) && travels(at(data.tensors, written))) open = false;
  }
  return groups;
}

SizeTables summed(const std::vector<SizeTables>& groups, const Variable& v) {
  SizeTables out = no_seconds(v);
  for (const SizeTables& g : groups)
    for (std::size_t i = 0; i < out.size(); i++)
      for (std::size_t k = 0; k < out[i].size(); k++) out[i][k] += g[i][k];
  return out;
}

std::vector<Index> evenly(const Mesh& mesh, const Variable& v, const PartsOf& of) {
  return over(open_parts(mesh, v, of), v.size,
              [&](const auto& which) { return Partition::even(v.size, static_cast<int>(which.size())).sizes(); });
}

std::vector<Index> by_speed(const std::vector<SizeTables>& groups, const Mesh& mesh, const Variable& v, const PartsOf& of) {
  if (groups.empty()) return evenly(mesh, v, of);
  return over(open_parts(mesh, v, of), v.size, [&](const auto& which) {
    const SizeTables all = summed(groups, v);
    SizeTables tables;
    for (std::size_t part : which) tables.push_back(all[part]);
    return proportional_parts(tables, v.size);
  });
}

std::vector<RankSet> rank_sets(const Mesh& mesh, const std::vector<double>& seconds) {
  const auto ranks = static_cast<std::size_t>(mesh.ranks());
  std::vector<std::size_t> order(ranks);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return seconds[a] < seconds[b]; });
  std::vector<RankSet> out{RankSet(ranks, true)};
  auto add = [&](RankSet set) {
    const bool any = std::find(set.begin(), set.end(), true) != set.end();
    if (any && std::find(out.begin(), out.end(), set) == out.end()) out.push_back(std::move(set));
  };
  RankSet prefix(ranks, false);
  for (std::size_t k = 0; k < ranks; k++) {
    prefix[order[k]] = true;
    if (ranks <= kAllPrefixes || std::has_single_bit(k + 1)) add(prefix);
  }
  for (std::size_t r = 0; r < ranks && ranks <= kAllPrefixes; r++) {
    RankSet alone(ranks, false);
    alone[r] = true;
    add(alone);
  }
  std::set<std::string> hosts;
  for (const Device& d : mesh.devices()) hosts.insert(d.host);
  for (const std::string& host : hosts) {
    RankSet without(ranks, true);
    for (std::size_t r = 0; r < ranks; r++) without[r] = mesh.device(static_cast<int>(r)).host != host;
    add(without);
  }
  for (std::size_t bits = 1; ranks <= kAllSets && bits < std::size_t{1} << ranks; bits++) {
    RankSet set(ranks, false);
    for (std::size_t r = 0; r < ranks; r++) set[r] = (bits >> r & 1U) != 0;
    add(set);
  }
  return out;
}

}  // namespace motley
