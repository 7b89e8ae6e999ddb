// SPDX-License-Identifier: Apache-2.0
// What a plan will take: its Programs, compiled and run in virtual time.
#pragma once
#include <motley/profile.h>

#include "plan/plan_data.h"

namespace motley {

// Fills in each rank's memory and, with a profile, seconds.
void predict(PlanData& data, const Profile& profile);
PlanData predicted(PlanData data, const Profile& profile);

}  // namespace motley
