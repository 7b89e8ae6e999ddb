// SPDX-License-Identifier: Apache-2.0
// A profile of some of the devices that were measured, or of all in another order.
#pragma once
#include <motley/mesh.h>
#include <motley/profile.h>

#include <vector>

namespace motley {

// What is known of these devices, which become ranks 0, 1, ...; real steps are not: they were of another mesh.
Profile part_of(const Profile& profile, const std::vector<int>& ranks);

// A profile of the mesh's devices, by name, in the mesh's order; any other profile is returned as it is.
Profile in_order_of(const Mesh& mesh, Profile profile);

}  // namespace motley
