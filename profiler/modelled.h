// SPDX-License-Identifier: Apache-2.0
// What is known of devices that are not here: seconds that follow from a mesh's numbers.
#pragma once
#include <motley/mesh.h>
#include <motley/profile.h>

namespace motley {

// The least multiple of the granule that is not below the extent.
Index rounded_up(Index extent, Index granule);

// Seconds of a kernel on a modelled device: launch + max(flops / (rate * efficiency), bytes / memory rate). Extents are rounded up
// to the granules; those of pools, maps and attention are not. bytes: of all operands, each once.
double seconds_by_numbers(const DeviceNumbers& numbers, const KernelSpec& spec);

// Whether a device of the mesh is modelled.
bool has_modelled(const Mesh& mesh);

// The profile of a mesh with modelled devices: their numbers, and links as the mesh gives them. `measured` has the other devices,
// by name, with their kernels and the links between them. UserError (66): it lacks one.
Profile modelled_profile(const Mesh& mesh, const Profile& measured = {});

}  // namespace motley
