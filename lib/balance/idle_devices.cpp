// SPDX-License-Identifier: Apache-2.0
#include "balance/idle_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/at.h"
#include "base/units.h"

namespace motley {

namespace {

constexpr double kEqual = 0.005;  // share of the step

bool computes(const PlanData& plan, int rank) {
  return std::any_of(plan.pass_plans.begin(), plan.pass_plans.end(),
                     [&](const PassPlan& p) { return !p.work.empty() && at(p.work, rank).any; });
}

std::string why(const PlansWith& with, double step_seconds) {
  if (with.made == 0) return "no plan was made with it: by bounds or sketches all are slower";
  if (!std::isfinite(with.seconds)) return "no plan tried with it fits in the devices' memory";
  const double ratio = with.seconds / std::max(step_seconds, 1e-30);
  const std::string seconds = seconds_text(with.seconds);
  if (ratio < 1 - kEqual)
    return fmt::format("a plan with it was predicted at {}, {:.2f}x: real steps chose this one", seconds, ratio);
  if (ratio < 1 + kEqual) return "the best plan tried with it takes equally long, to 0.5 %";
  return fmt::format("the best plan tried with it takes {}, {:.2f}x", seconds, ratio);
}

}  // namespace

std::vector<IdleDevice> idle_devices(const PlanData& plan, const std::vector<PlansWith>& with) {
  std::vector<IdleDevice> out;
  for (int r = 0; r < static_cast<int>(plan.predicted.size()); r++) {
    if (computes(plan, r)) continue;
    IdleDevice& one = out.emplace_back(IdleDevice{.rank = r});
    if (with.empty() || !plan.step_seconds) {
      one.why = "no rule gives it a part";
      continue;
    }
    one.why = why(at(with, r), *plan.step_seconds);
    if (std::isfinite(at(with, r).seconds)) one.with_it = at(with, r).seconds;
  }
  return out;
}

}  // namespace motley
