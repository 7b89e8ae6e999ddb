// SPDX-License-Identifier: Apache-2.0
#include "balance/part_trials.h"

#include <algorithm>

#include "balance/choose_tiles.h"
#include "balance/memory_limits.h"
#include "base/at.h"
#include "plan/planner.h"
#include "plan/statistics.h"
#include "program/predict.h"

namespace motley {

namespace {

// How much more than its seconds a message counts where picks are to move the least. A quickstart of batch 64 in parts 33 + 19 + 12
// holds 18.6 MB on the first rank with 1, 13.0 MB with 100 and with a million.
constexpr double kMessageWeight = 100;

}  // namespace

Trial PartTrials::trial(Proposal of, PlanData plan) const {
  const double lacking = undefined_statistics(plan, mesh_) ? kNever : limits ? lacking_of(plan) : 0;
  const double seconds = lacking > 0 ? kNever : plan.step_seconds.value_or(0);
  return {std::move(of), std::move(plan), lacking, seconds};
}

// A function of the resolved rules alone: they give the same plan where the search did not find them.
Trial PartTrials::improved(Proposal of) const {
  const LayoutRules resolved = with_parts(rules_, mesh_, variables_, of.parts);
  PlanData plan = predicted(plan_with(passes_, mesh_, resolved, profile_, dtype_, &cost_), profile_);
  if (limits && !fits(plan)) {
    const auto take_lighter = [&](PlanData other) {
      predict(other, profile_);
      if (lacking_of(other) < lacking_of(plan)) plan = std::move(other);
    };
    if (!light_)
      light_.emplace(passes_, mesh_, profile_, std::vector<double>(plan.predicted.size(), 1.0), dtype_, plan.formats,
                     kMessageWeight);
    take_lighter(plan_with(passes_, mesh_, resolved, profile_, dtype_, &*light_));
    if (const auto even = fits(plan) ? std::nullopt : cut_by(resolved, passes_, CutBy::even)) {
      if (!even_ || even_->first.tensors != even->tensors)
        even_.emplace(*even, plan_with(passes_, mesh_, *even, profile_, dtype_, &cost_));
      take_lighter(plan_like(even_->second, mesh_, resolved, profile_, &cost_));
    }
    if (tiles && lacking_of(plan) < kTilesSave) tile_to_fit(plan, profile_);
  }
  return trial(std::move(of), std::move(plan));
}

Trial PartTrials::overlapped(Trial one) const {
  choose_tiles(one.plan, profile_);
  return trial(std::move(one.of), std::move(one.plan));
}

bool take(Trial trial, Trial& best, double gain) {
  if (best.lacking > 0 ? !(trial.lacking < best.lacking) : !(trial.seconds < best.seconds * (1 - gain))) return false;
  best = std::move(trial);
  return true;
}

}  // namespace motley
