// SPDX-License-Identifier: Apache-2.0
#include "balance/part_moves.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "balance/memory_limits.h"
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

// Each part's most loaded rank.
template <class F>
std::vector<double> loads(const Mesh& mesh, const Variable& v, int per, std::size_t list, F load_of) {
  std::vector<double> out(static_cast<std::size_t>(v.parts), 0.0);
  for (int r = 0; r < mesh.ranks(); r++) {
    if (list_of(mesh, per, r) != list) continue;
    double& most = at(out, part_of(mesh, v.axes, r));
    most = std::max(most, load_of(r));
  }
  return out;
}

using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

// All pairs of parts, first from the most loaded to the least loaded one.
Pairs pairs_of(const std::vector<double>& load) {
  Pairs pairs;
  for (std::size_t from = 0; from < load.size(); from++)
    for (std::size_t to = 0; to < load.size(); to++)
      if (from != to) pairs.emplace_back(from, to);
  std::stable_sort(pairs.begin(), pairs.end(),
                   [&](const auto& a, const auto& b) { return load[a.first] - load[a.second] > load[b.first] - load[b.second]; });
  return pairs;
}

// With at most so many units moved; nothing: there are none, or the lists already differ along another axis.
std::optional<Proposal> moved(const Mesh& mesh, Proposal of, std::size_t i, int per, std::size_t list, std::size_t from,
                              std::size_t to, Index units) {
  PartLists& parts = of.parts[i];
  if (parts.per > per) return std::nullopt;
  if (per != parts.per) parts = {per, std::vector(static_cast<std::size_t>(at(mesh.axes(), per).size), parts.lists.front())};
  const Index taken = std::min(units, parts.lists[list][from]);
  if (taken == 0) return std::nullopt;
  parts.lists[list][from] -= taken;
  parts.lists[list][to] += taken;
  return of;
}

// All of it, then halves down to one unit: a few sizes.
std::vector<Index> units_of(Index size) {
  std::vector<Index> out{size};
  for (Index units : {size / 2, size / 4, Index{16}, Index{8}, Index{4}, Index{1}})
    if (units >= 1 && units < out.back()) out.push_back(units);
  return out;
}

// What a part needs of the memory depends on its picks: where memory is lacking, with picks of their own.
Trial tried(const PartTrials& trials, Proposal of, const Trial& now) {
  if (now.lacking == 0) return trials.quick(std::move(of), now.plan);
  try {
    return trials.improved(std::move(of));
  } catch (const LayoutError&) {  // lists along an axis that do not tile
    return {};
  }
}

// Adds each plan that was better to `path`.
bool move_in(const PartTrials& trials, Trial& now, std::size_t i, int per, std::size_t list, int& left,
             std::vector<Proposal>& path) {
  const Variable& v = trials.variables()[i];
  const bool lacks = now.lacking > 0;
  const std::vector<double> load = loads(trials.mesh(), v, per, list, [&](int rank) {
    return lacks ? fullness(now.plan, rank) : at(now.plan.predicted, rank).seconds;
  });
  bool any = false;
  for (const auto& [from, to] : pairs_of(load))
    for (const Index units : units_of(v.size))
      for (bool again = true; again && left > 0;) {
        std::optional<Proposal> of = moved(trials.mesh(), now.of, i, per, list, from, to, units);
        if (!of) break;
        of->why[i] = now.lacking > 0 ? "as much as the devices' memory allows"
                                     : "local search: units were moved between ranks while the predicted step got faster";
        left--;
        again = take(tried(trials, *std::move(of), now), now, kGain);
        if (again) path.push_back(now.of);
        any = any || again;
      }
  return any;
}

}  // namespace

void move_units(const PartTrials& trials, Trial& best, int& left) {
  Trial now = best;
  std::vector<Proposal> path;
  for (bool moved = true; moved && left > 0 && std::isfinite(now.lacking);) {
    moved = false;
    for (std::size_t i = 0; i < trials.variables().size() && left > 0; i++) {
      if (!trials.is_free(i)) continue;
      for (const auto& [per, list] : lists_of(trials.mesh(), now.of.parts[i], trials.variables()[i]))
        moved = move_in(trials, now, i, per, list, left, path) || moved;
    }
  }
  for (bool fits = false; !fits && !path.empty(); path.pop_back()) {  // picks of their own may need more memory
    Trial trial = trials.improved(std::move(path.back()));
    fits = trial.lacking == 0 || now.lacking > 0;
    take(std::move(trial), best, kGain);
    if (left-- <= 0) return;
  }
}

}  // namespace motley
