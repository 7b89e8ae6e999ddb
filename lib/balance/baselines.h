// SPDX-License-Identifier: Apache-2.0
// What other parts of the same rules would take.
#pragma once
#include "plan/plan_data.h"

namespace motley {

// Every cut even; parts by one number per device; the whole network on one device, the fastest so that has the memory. Each is a
// whole plan in virtual time. Nothing without a profile, or where no rule cuts anything.
Baseline baselines_of(const Passes& passes, const Mesh& mesh, const LayoutRules& rules, const Profile& profile, DType dtype);

}  // namespace motley
