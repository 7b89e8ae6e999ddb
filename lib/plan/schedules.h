// SPDX-License-Identifier: Apache-2.0
// Which schedule each exchange of a plan takes.
#pragma once
#include <motley/profile.h>

#include "plan/plan_data.h"

namespace motley {

// The stages of a tensor's three hops.
std::array<Stages, 3> stages_of(const TensorPlan& plan, std::span<const int> hosts);

// For every move that leaves a host: direct, or two_level where that is cheaper by the profile's links (of nearly equal ones the
// one with fewer stages). Without measured links two_level where several ranks of a host send one rank of another partial sums of
// one box, or get the same values from it; else direct. Counts bytes.
void choose_schedules(PlanData& data, const Profile& profile);

// Fills in what each rank receives.
void count_bytes(PlanData& data);

}  // namespace motley
