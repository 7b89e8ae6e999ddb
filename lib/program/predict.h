// SPDX-License-Identifier: Apache-2.0
// The prediction for a plan: its Programs, compiled and run in virtual time.
#pragma once
#include <motley/profile.h>

#include "plan/plan_data.h"

namespace motley {

// Sets each rank's memory and, with a profile, its seconds.
void predict(PlanData& data, const Profile& profile);
PlanData predicted(PlanData data, const Profile& profile);

}  // namespace motley
