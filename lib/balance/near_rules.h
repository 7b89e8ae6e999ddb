// SPDX-License-Identifier: Apache-2.0
// Plans that a prediction cannot tell apart, and the one of them that real steps say is the fastest.
#pragma once
#include <motley/profile.h>

#include <string>
#include <vector>

#include "balance/choose_layout.h"

namespace motley {

struct NearRules {
  std::string name{};      // for people: "filters 32/8", "even parts", "fast alone"
  LayoutRules rules{};     // resolved
  std::size_t layout = 0;  // of these layouts
};
// What real steps decide between: first the chosen ones, then even parts, all parts on the fastest rank, then other layouts, then
// parts predicted within 15 % of the chosen ones, the fastest first; at most 8. Those chosen alone: nothing was open.
std::vector<NearRules> near_rules(const std::vector<ChosenLayout>& layouts, const Mesh& mesh);

// The first of choose_layouts(); where real steps of the step were timed (nullptr: none), the fastest of near_rules() that ran and
// fits.
ChosenLayout choose_by_steps(const Step& step, const Mesh& mesh, const LayoutRules& rules, const Profile& profile, DType dtype,
                             const TimedSteps* steps);

}  // namespace motley
