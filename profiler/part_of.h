// SPDX-License-Identifier: Apache-2.0
// A profile of some of the devices that were measured.
#pragma once
#include <motley/profile.h>

#include <vector>

namespace motley {

// What is known of these devices, which become ranks 0, 1, ...; real steps are not: they were of another mesh.
Profile part_of(const Profile& profile, const std::vector<int>& ranks);

}  // namespace motley
