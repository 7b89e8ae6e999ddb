// SPDX-License-Identifier: Apache-2.0
// Rules with parts "profile" or "proportional" -> rules with given parts.
#pragma once
#include <string>
#include <vector>

#include "balance/variables.h"
#include "plan/plan_data.h"

namespace motley {

struct ChosenParts {
  LayoutRules rules{};  // every part given
  PlanData plan{};      // the plan under these rules, predicted
  std::vector<CutChoice> cuts{};
  std::vector<std::string> notes{};
  std::vector<Assignment>
      near{};  // tried, predicted within 15 % of the chosen one's seconds, the fastest first, without the chosen one; at most 8
};

// With a profile: the least predicted of a list of whole plans in virtual time: on all ranks, on each rank alone, on every prefix
// of the ranks by speed, on all without one host, and (with up to four ranks) on every set of them; each with even, proportional,
// and best parts on staircase tables of the kernels (exact on these tables where balance_sum says so). Then a local search from
// there: tables made again on the best plan, on meshes of several axes lists that differ along an axis, units moved between ranks.
// Limits of memory are looked at only if that plan exceeds one: then the search goes on from parts near it that fit.
// Without a profile: even. Pure.
ChosenParts choose_parts(const Passes& passes, const Mesh& mesh, const LayoutRules& rules, const Profile& profile, DType dtype);

}  // namespace motley
