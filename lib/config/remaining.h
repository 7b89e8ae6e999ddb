// SPDX-License-Identifier: Apache-2.0
// A job for the remaining devices, after others are lost.
#pragma once
#include <motley/mesh.h>
#include <motley/profile.h>
#include <motley/rules.h>

#include <optional>
#include <vector>

#include "config/job.h"

namespace motley {

// What is left of a mesh and its layout.
struct Remaining {
  Mesh mesh;
  LayoutRules rules{};
  std::vector<int> ranks{};  // ranks in the first mesh, by rank of this one
};

// The mesh stays a grid: whole slices of it are removed, those that lose the fewest devices. The parts of a slice are distributed
// among the others in proportion to what these have, in multiples of the common multiple of all parts; a layer that was placed only
// on lost devices is not placed any more. Nothing: no device is left.
std::optional<Remaining> without(const Mesh& mesh, const LayoutRules& rules, const std::vector<int>& gone);

// The job on that mesh. If `profile` has measurements of these devices, a profile with them is written to `file`, which the job
// then names; what is missing in it is measured. UserError: this network cannot run there.
Job on(const Remaining& remaining, const Job& job, const Profile& profile, const std::string& file);

}  // namespace motley
