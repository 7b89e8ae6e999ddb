// SPDX-License-Identifier: Apache-2.0
// The prediction for a plan: its Programs, compiled and run in virtual time.
#pragma once
#include <motley/profile.h>

#include <cstdint>
#include <vector>

#include "plan/plan_data.h"

namespace motley {

// Sets each rank's memory and, with a profile, its seconds, and `apart`: fused kernels that the profile says are slower than
// separate ones, or impossible, beside those that are in it already; for what was not measured bytes and instructions decide.
void predict(PlanData& data, const Profile& profile);
PlanData predicted(PlanData data, const Profile& profile);
std::int64_t plans_predicted();  // by this process so far

// In virtual time: how long the rank that waits longest waits for what a hop of a tensor brings.
struct ExposedWait {
  int tensor = -1;
  std::size_t hop = 0;  // in kHops
  double seconds = 0;
};
std::vector<ExposedWait> exposed_waits(const PlanData& data, const Profile& profile);  // the longest first

}  // namespace motley
