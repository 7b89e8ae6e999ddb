// SPDX-License-Identifier: Apache-2.0
#include "balance/baselines.h"

#include <algorithm>
#include <numeric>

#include "balance/choose_tiles.h"
#include "balance/part_tables.h"
#include "plan/planner.h"
#include "program/predict.h"

namespace motley {

Baseline baselines_of(const Passes& passes, const Mesh& mesh, const LayoutRules& rules, const Profile& profile, DType dtype,
                      const Cost& cost, const std::optional<PlanData>& base) {
  Baseline out;
  const std::optional<LayoutRules> even = cut_by(rules, passes, CutBy::even),
                                   proportional = cut_by(rules, passes, CutBy::proportional),
                                   open = cut_by(rules, passes, CutBy::profile);
  if (profile.empty() || !even) return out;
  const auto planned = [&](const LayoutRules& resolved) {
    return predicted(plan_with(passes, mesh, resolved, profile, dtype, &cost), profile);
  };
  const auto possible = [&](PlanData plan) {
    choose_tiles(plan, profile);
    return fits(plan) && plan.step_seconds < kImpossibleSeconds ? plan.step_seconds : std::nullopt;
  };
  const bool known = base && rules.places.empty() && open->split == rules.split && open->tensors == rules.tensors;
  const PlanData by_even = known ? *base : planned(*even);
  out.even = possible(by_even);
  const std::vector<Variable> cut = variables_of(passes, mesh, *proportional);
  const PartsOf all{RankSet(static_cast<std::size_t>(mesh.ranks()), true)};
  Assignment parts;
  for (const Variable& v : cut) parts.push_back({-1, {by_speed(tables_of(by_even, mesh, cost, v, all), mesh, v, all)}});
  out.proportional = possible(planned(with_parts(*proportional, mesh, cut, parts)));
  const std::vector<double> seconds = seconds_alone(passes, mesh, cost);
  std::vector<int> order(seconds.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return at(seconds, a) < at(seconds, b); });
  for (std::size_t k = 0; k < order.size() && !out.fast_alone; k++) {
    LayoutRules alone;
    for (const Pass& p : passes.passes) alone.places[p.layer] = {mesh.device(order[k]).name};
    out.fast_alone = possible(planned(alone));
  }
  return out;
}

}  // namespace motley
