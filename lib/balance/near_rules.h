// SPDX-License-Identifier: Apache-2.0
// Plans that a prediction cannot tell apart, and the one of them that real steps say is the fastest.
#pragma once
#include <motley/profile.h>

#include <string>
#include <vector>

#include "balance/choose_parts.h"
#include "plan/cost.h"

namespace motley {

struct NearRules {
  std::string name{};   // for people: "filters 32/8", "even parts", "fast alone"
  LayoutRules rules{};  // resolved
};
// What real steps decide between: first the chosen ones, then even parts, all parts on the fastest rank, then those
// predicted within 15 % of the chosen ones, the fastest first; at most 8. Those chosen alone: nothing was open.
std::vector<NearRules> near_rules(const ChosenParts& chosen, const Passes& passes, const Mesh& mesh, const LayoutRules& rules,
                                  const Cost& cost);

// As choose_parts(); where real steps of the step were timed (nullptr: none), the fastest of near_rules() that ran and fits.
ChosenParts choose_by_steps(const Passes& passes, const Mesh& mesh, const LayoutRules& rules, const Profile& profile, DType dtype,
                            const Cost& cost, const TimedSteps* steps);

}  // namespace motley
