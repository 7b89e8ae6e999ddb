// SPDX-License-Identifier: Apache-2.0
#include "balance/part_moves.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/at.h"
#include "mesh/parts.h"

namespace motley {

namespace {

// The lists that moves may change: (axis along which they differ, which).
std::vector<std::pair<int, std::size_t>> lists_of(const Mesh& mesh, const PartLists& now, const Variable& v) {
  std::vector<std::pair<int, std::size_t>> out;
  for (std::size_t list = 0; list < now.lists.size(); list++) out.emplace_back(now.per, list);
  for (std::size_t a = 0; a < mesh.axes().size() && now.per < 0 && mesh.axes().size() > 1; a++)
    if (std::find(v.axes.begin(), v.axes.end(), static_cast<int>(a)) == v.axes.end())
      for (std::size_t here = 0; here < static_cast<std::size_t>(mesh.axes()[a].size); here++)
        out.emplace_back(static_cast<int>(a), here);
  return out;
}

// The seconds of each part's busiest rank.
std::vector<double> busy_of(const Mesh& mesh, const PlanData& plan, const Variable& v, int per, std::size_t list) {
  std::vector<double> busy(static_cast<std::size_t>(v.parts), 0.0);
  for (int r = 0; r < mesh.ranks(); r++) {
    if (list_of(mesh, per, r) != list) continue;
    double& most = at(busy, part_of(mesh, v.axes, r));
    most = std::max(most, at(plan.predicted, r).seconds);
  }
  return busy;
}

// All of it, then halves down to one unit: a few sizes.
std::vector<Index> units_of(Index size) {
  std::vector<Index> out{size};
  for (Index units : {size / 2, size / 4, Index{16}, Index{8}, Index{4}, Index{1}})
    if (units >= 1 && units < out.back()) out.push_back(units);
  return out;
}

// Adds each plan that was faster to `path`.
bool move_in(const PartTrials& trials, Trial& now, std::size_t i, int per, std::size_t list, int& left,
             std::vector<Proposal>& path) {
  const Variable& v = trials.variables()[i];
  const std::vector<double> busy = busy_of(trials.mesh(), now.plan, v, per, list);
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t from = 0; from < busy.size(); from++)
    for (std::size_t to = 0; to < busy.size(); to++)
      if (from != to) pairs.emplace_back(from, to);
  std::stable_sort(pairs.begin(), pairs.end(),
                   [&](const auto& a, const auto& b) { return busy[a.first] - busy[a.second] > busy[b.first] - busy[b.second]; });
  bool any = false;
  for (const auto& [from, to] : pairs)
    for (const Index units : units_of(v.size))
      for (bool again = true; again && left > 0;) {
        PartLists next = now.of.parts[i];
        if (per != next.per)
          next = {per, std::vector(static_cast<std::size_t>(at(trials.mesh().axes(), per).size), next.lists.front())};
        const Index taken = std::min(units, next.lists[list][from]);
        if (taken == 0 || now.of.parts[i].per > per) break;
        next.lists[list][from] -= taken;
        next.lists[list][to] += taken;
        Proposal of = now.of;
        of.parts[i] = std::move(next);
        of.why[i] = "local search: units were moved between ranks while the predicted step got faster";
        left--;
        again = take(trials.quick(std::move(of), now.plan), now, kGain);
        if (again) path.push_back(now.of);
        any = any || again;
      }
  return any;
}

}  // namespace

void move_units(const PartTrials& trials, Trial& best, int& left) {
  Trial now = best;
  std::vector<Proposal> path;
  for (bool moved = true; moved && left > 0 && std::isfinite(now.seconds);) {
    moved = false;
    for (std::size_t i = 0; i < trials.variables().size() && left > 0; i++) {
      if (!trials.is_free(i)) continue;
      for (const auto& [per, list] : lists_of(trials.mesh(), now.of.parts[i], trials.variables()[i]))
        moved = move_in(trials, now, i, per, list, left, path) || moved;
    }
  }
  for (bool fits = false; !fits && !path.empty(); path.pop_back()) {  // picks of their own may need more memory
    Trial trial = trials.improved(std::move(path.back()));
    fits = std::isfinite(trial.seconds);
    take(std::move(trial), best, kGain);
    if (left-- <= 0) return;
  }
}

}  // namespace motley
