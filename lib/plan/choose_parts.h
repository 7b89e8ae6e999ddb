// SPDX-License-Identifier: Apache-2.0
// Rules with parts "profile" or "proportional" -> rules that tell their parts.
#pragma once
#include <string>
#include <vector>

#include "plan/plan_data.h"

namespace motley {

struct Told {
  LayoutRules rules{};  // every part told
  PlanData plan{};      // under them, predicted
  std::vector<CutChoice> cuts{};
  std::vector<std::string> notes{};
  Baseline baselines{};
};

// With a profile: per dim the exact integer optimum on its staircase tables (sums between waits), then held against even, proportional
// and each rank alone on the whole step in virtual time; the best of all is taken, so no plan is predicted slower than those. Without:
// even. Pure.
Told choose_parts(const Passes& passes, const Mesh& mesh, const LayoutRules& rules, const Profile& profile, DType dtype);

}  // namespace motley
