// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/profile.h>
#include <motley/runtime.h>

#include <string>

namespace motley {

// Collective: that the profile was measured on these ranks' devices. UserError on all ranks, which names the file and what differs.
void require_same_devices(Runtime& rt, const Mesh& mesh, const Profile& profile, const std::string& file);

}  // namespace motley
