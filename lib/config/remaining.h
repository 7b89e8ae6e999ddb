// SPDX-License-Identifier: Apache-2.0
// A job for the devices that are left, once others are gone.
#pragma once
#include <motley/mesh.h>
#include <motley/profile.h>
#include <motley/rules.h>

#include <optional>
#include <vector>

#include "config/job.h"

namespace motley {

// What stays of a mesh and its layout.
struct Remaining {
  Mesh mesh;
  LayoutRules rules{};
  std::vector<int> ranks{};  // of the first mesh, by rank of this one
};

// A mesh stays a grid: whole slices of it go, those that lose the fewest devices. The parts of a slice are shared out among the
// others in proportion to what they have, in multiples of what all parts were multiples of; a layer that was placed on lost devices
// alone is placed nowhere. Nothing: no device is left.
std::optional<Remaining> without(const Mesh& mesh, const LayoutRules& rules, const std::vector<int>& gone);

// The job on that mesh. A profile with these devices' part of `profile` is written to `file` where `profile` has one, and named by
// the job; what is missing in it is measured. UserError: this network cannot run there.
Job on(const Remaining& remaining, const Job& job, const Profile& profile, const std::string& file);

}  // namespace motley
