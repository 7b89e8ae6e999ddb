// SPDX-License-Identifier: Apache-2.0
#include "balance/baselines.h"

#include <set>

#include "balance/choose_apart.h"
#include "balance/choose_tiles.h"
#include "balance/part_tables.h"
#include "plan/formats.h"
#include "plan/planner.h"
#include "program/predict.h"

namespace motley {

Baseline baselines_of(const Passes& passes, const Mesh& mesh, const LayoutRules& rules, const Profile& profile, DType dtype) {
  Baseline out;
  const std::optional<LayoutRules> even = cut_by(rules, passes, CutBy::even),
                                   proportional = cut_by(rules, passes, CutBy::proportional);
  if (profile.empty() || !even) return out;
  const Cost cost(passes, mesh, profile, std::vector<double>(static_cast<std::size_t>(mesh.ranks()), 1.0), dtype,
                  common_formats(passes, mesh, dtype));
  auto planned = [&](const LayoutRules& resolved) {
    PlanData plan = predicted(plan_with(passes, mesh, resolved, profile, dtype, &cost), profile);
    choose_tiles(plan, profile);
    choose_apart(plan, profile);
    return plan;
  };
  const PlanData base = planned(*even);
  auto possible = [](const PlanData& plan) {
    return fits(plan) && plan.step_seconds < kImpossibleSeconds ? plan.step_seconds : std::nullopt;
  };
  out.even = possible(base);
  const std::vector<Variable> cut = variables_of(passes, mesh, *proportional);
  Assignment parts;
  for (const Variable& v : cut)
    parts.push_back({-1, {by_speed(base, mesh, cost, v, {RankSet(static_cast<std::size_t>(mesh.ranks()), true)})}});
  out.proportional = possible(planned(with_parts(*proportional, mesh, cut, parts)));
  std::set<std::string> layers;
  for (const Pass& p : passes.passes) layers.insert(p.layer);
  for (int r = 0; r < mesh.ranks(); r++) {
    LayoutRules alone;
    for (const std::string& layer : layers) alone.places[layer] = {mesh.device(r).name};
    const std::optional<double> seconds = possible(planned(alone));
    if (seconds && (!out.fast_alone || *seconds < *out.fast_alone)) out.fast_alone = seconds;
  }
  return out;
}

}  // namespace motley
