// SPDX-License-Identifier: Apache-2.0
#include "balance/part_trials.h"

#include <algorithm>

#include "balance/choose_tiles.h"
#include "plan/planner.h"
#include "plan/statistics.h"
#include "plan/tiles.h"
#include "program/predict.h"

namespace motley {

Trial PartTrials::trial(Proposal of, PlanData plan) const {
  const bool good = fits(plan) && !undefined_statistics(plan, mesh_);
  const double seconds = good ? plan.step_seconds.value_or(0) : kNever;
  return {std::move(of), std::move(plan), seconds};
}

// A function of the resolved rules alone: they give the same plan where the search did not find them.
Trial PartTrials::improved(Proposal of) const {
  const LayoutRules resolved = with_parts(rules_, mesh_, variables_, of.parts);
  PlanData plan = predicted(plan_with(passes_, mesh_, resolved, profile_, dtype_, &cost_), profile_);
  if (const auto even = fits(plan) ? std::nullopt : cut_by(resolved, passes_, CutBy::even)) {
    if (!even_ || even_->first.tensors != even->tensors)
      even_.emplace(*even, plan_with(passes_, mesh_, *even, profile_, dtype_, &cost_));
    PlanData other = predicted(plan_like(even_->second, mesh_, resolved, profile_, &cost_), profile_);
    if (fits(other)) plan = std::move(other);
  }
  if (overlaps) overlap(plan);
  return trial(std::move(of), std::move(plan));
}

Trial PartTrials::quick(Proposal of, const PlanData& like) const {
  try {
    PlanData plan = predicted(plan_like(like, mesh_, with_parts(rules_, mesh_, variables_, of.parts), profile_, &cost_), profile_);
    return trial(std::move(of), std::move(plan));
  } catch (const LayoutError&) {
    return {std::move(of), {}, kNever};
  }
}

Trial PartTrials::again(Trial one) const {
  if (overlaps) overlap(one.plan);
  return trial(std::move(one.of), std::move(one.plan));
}

void PartTrials::overlap(PlanData& plan) const {
  const bool goes = std::any_of(plan.tensors.begin(), plan.tensors.end(), [&](const TensorPlan& t) {
    return std::any_of(kHops.begin(), kHops.end(), [&](auto hop) { return may_overlap(plan, t.*hop); });
  });
  if (goes) choose_tiles(plan, profile_);
}

bool take(Trial trial, Trial& best, double gain) {
  if (!(trial.seconds < best.seconds * (1 - gain))) return false;
  best = std::move(trial);
  return true;
}

}  // namespace motley
