// SPDX-License-Identifier: Apache-2.0
// Rules with parts "profile" or "proportional" -> rules that tell their parts.
#pragma once
#include <string>
#include <vector>

#include "plan/plan_data.h"

namespace motley {

struct Told {
  LayoutRules rules{};
  std::vector<CutChoice> cuts{};
  std::vector<std::string> notes{};
  Baseline baselines{};
};

Told choose_parts(const Passes& passes, const Mesh& mesh, const LayoutRules& rules, const Profile& profile, DType dtype);

}  // namespace motley
