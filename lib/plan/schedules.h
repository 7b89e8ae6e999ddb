// SPDX-License-Identifier: Apache-2.0
// Which schedule each exchange of a plan uses.
#pragma once
#include <motley/profile.h>

#include "plan/plan_data.h"

namespace motley {

// The stages of a tensor's three hops.
std::array<Stages, 3> stages_of(const TensorPlan& plan, std::span<const int> hosts);

// What a message takes between ranks with these `hosts` (PlanData): as Cost::message, an exchange's own seconds included. The
// profile outlives the result.
LinkSeconds links_of(const Profile& profile, std::span<const int> hosts);

// Chooses for every move between hosts: direct, or two_level where that is cheaper by the profile's links (of nearly equal ones the
// one with fewer stages). Without measured links: two_level if several ranks of a host send one rank of another host partial sums
// of one box, or get the same values from it; else direct. Counts bytes.
void choose_schedules(PlanData& data, const Profile& profile);

// Sets the number of bytes that each rank receives in a training step other than the first one.
void count_bytes(PlanData& data);
// Per rank: the bytes that it receives besides in the first step, and keeps: of frozen parameters.
std::vector<Index> kept_bytes(const PlanData& data);

}  // namespace motley
