// SPDX-License-Identifier: Apache-2.0
// Which tensors are tiled, and in how many pieces their messages are sent.
#pragma once
#include <motley/profile.h>

#include "plan/plan_data.h"

namespace motley {

// Tiles tensors of exchanges for which ranks wait long although kernels could run meanwhile, where virtual time predicts a gain.
void choose_tiles(PlanData& data, const Profile& profile);
inline constexpr double kTilesSave = 0.1;  // lacking_of(): tiles seldom save more
// Tiles tensors while memory is lacking and tiles make it less.
void tile_to_fit(PlanData& data, const Profile& profile);

}  // namespace motley
