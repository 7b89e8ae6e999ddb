// SPDX-License-Identifier: Apache-2.0
// Which tensors are tiled, and in how many pieces their messages go.
#pragma once
#include <motley/profile.h>

#include "plan/plan_data.h"

namespace motley {

// Those of exchanges that overlap with kernels, where virtual time says that it pays.
void choose_tiles(PlanData& data, const Profile& profile);

}  // namespace motley
