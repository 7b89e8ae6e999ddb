// SPDX-License-Identifier: Apache-2.0
// The prediction for a plan: its Programs, compiled and run in virtual time.
#pragma once
#include <motley/profile.h>

#include <cstdint>
#include <vector>

#include "plan/plan_data.h"

namespace motley {

// Sets each rank's memory and, with a profile, its seconds.
void predict(PlanData& data, const Profile& profile);
// The same; `made`: per rank the kernels that were fused (compile.h).
struct Fusion;
void predict(PlanData& data, const Profile& profile, std::vector<std::vector<Fusion>>& made);
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
