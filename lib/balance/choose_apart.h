// SPDX-License-Identifier: Apache-2.0
// Which fused kernels of a plan run as separate ones.
#pragma once
#include "plan/plan_data.h"

namespace motley {

// Those that the profile says are slower than separate ones, or impossible; for what was not measured bytes and instructions
// decide. Then the plan is predicted.
void choose_apart(PlanData& data, const Profile& profile);

}  // namespace motley
