// SPDX-License-Identifier: Apache-2.0
// The predicted time of other parts under the same rules.
#pragma once
#include <optional>

#include "plan/cost.h"
#include "plan/plan_data.h"

namespace motley {

// Three baselines: every cut even; parts by one number per device; the whole network on one device, the fastest that has the memory
// for it. Each is a whole plan in virtual time. Nothing without a profile, or where no rule cuts anything. cost, base: as in
// choose_parts.h, so that nothing is priced or planned again.
Baseline baselines_of(const Passes& passes, const Mesh& mesh, const LayoutRules& rules, const Profile& profile, DType dtype,
                      const Cost& cost, const std::optional<PlanData>& base);
// The last of them. With a profile.
std::optional<double> fastest_alone(const Passes& passes, const Mesh& mesh, const Profile& profile, DType dtype, const Cost& cost);

}  // namespace motley
