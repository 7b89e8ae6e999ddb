// SPDX-License-Identifier: Apache-2.0
#include "balance/baselines.h"

#include <algorithm>
#include <numeric>

#include "balance/choose_tiles.h"
#include "balance/part_tables.h"
#include "plan/planner.h"
#include "program/predict.h"

namespace motley {

namespace {

// Predicted with tiles; nothing: it does not fit in the devices' memory, or a device cannot compute it.
std::optional<double> seconds_if_possible(PlanData plan, const Profile& profile) {
  choose_tiles(plan, profile);
  return fits(plan) && plan.step_seconds < kImpossibleSeconds ? plan.step_seconds : std::nullopt;
}

}  // namespace

std::optional<double> fastest_alone(const Passes& passes, const Mesh& mesh, const Profile& profile, DType dtype, const Cost& cost) {
  const std::vector<double> seconds = seconds_alone(passes, mesh, cost);
  std::vector<int> order(seconds.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return at(seconds, a) < at(seconds, b); });
  for (const int rank : order) {
    LayoutRules alone;
    for (const Pass& p : passes.passes) alone.places[p.layer] = {mesh.device(rank).name};
    const PlanData plan = predicted(plan_with(passes, mesh, alone, profile, dtype, &cost), profile);
    if (const auto its = seconds_if_possible(plan, profile)) return its;
  }
  return std::nullopt;
}

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
  const bool known = base && rules.places.empty() && open->split == rules.split && open->tensors == rules.tensors;
  const PlanData by_even = known ? *base : planned(*even);
  out.even = seconds_if_possible(by_even, profile);
  const std::vector<Variable> cut = variables_of(passes, mesh, *proportional);
  const PartsOf all{RankSet(static_cast<std::size_t>(mesh.ranks()), true)};
  Assignment parts;
  for (const Variable& v : cut) parts.push_back({-1, {by_speed(tables_of(by_even, mesh, cost, v, all), mesh, v, all)}});
  out.proportional = seconds_if_possible(planned(with_parts(*proportional, mesh, cut, parts)), profile);
  out.fast_alone = fastest_alone(passes, mesh, profile, dtype, cost);
  return out;
}

}  // namespace motley
