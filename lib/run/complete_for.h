// SPDX-License-Identifier: Apache-2.0
// For which steps a profile has been completed.
#pragma once
#include <motley/mesh.h>
#include <motley/profile.h>
#include <motley/rules.h>
#include <motley/step.h>

namespace motley {

bool is_complete_for(const Profile& profile, const Step& step, const Mesh& mesh, const LayoutRules& rules);
void add_complete_for(Profile& profile, const Step& step, const Mesh& mesh, const LayoutRules& rules);

}  // namespace motley
