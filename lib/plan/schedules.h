// SPDX-License-Identifier: Apache-2.0
// Which schedule each exchange of a plan takes.
#pragma once
#include <motley/profile.h>
#include <motley/redistribute.h>

#include "plan/plan_data.h"

namespace motley {

// The stages of a tensor's three moves: first, second, third.
std::array<Stages, 3> stages_of(const TensorPlan& plan, std::span<const int> hosts, const Routes& routes = {});

// Stage after stage, each as long as its slowest rank takes.
double seconds_of(const Stages& stages, Index item_bytes, const LinkSeconds& link);

// The ways between ranks that are worth a detour, through any that have a part in the step; empty: every pair's own link is best.
Routes routes_of(const PlanData& data, const Profile& profile);
Routes straight_routes(const PlanData& data);
bool is_routed(const PlanData& data);  // some move
void go_straight(PlanData& data);      // routed moves are direct then

// For every move that leaves a host: the cheapest by the profile's links; of nearly equal ones the one with fewer stages. Without
// measured links two_level where several ranks of a host send one rank of another terms of one box, or get the same values from it;
// else direct. random, not 0: any schedule, told by this number. Counts bytes.
void choose_schedules(PlanData& data, const Profile& profile, unsigned random = 0);

// Fills in what each rank receives.
void count_bytes(PlanData& data);

}  // namespace motley
