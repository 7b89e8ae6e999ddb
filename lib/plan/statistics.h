// SPDX-License-Identifier: Apache-2.0
// A variance of one value is not defined: local statistics (OwnPart) need two values of each on every rank that has some.
#pragma once
#include <motley/mesh.h>

#include <optional>
#include <string>

#include "plan/layouts.h"
#include "plan/plan_data.h"

namespace motley {

// Whether this work of a rank leaves a variance undefined.
bool leaves_undefined(const Pass& pass, const Work& work);
// What is wrong with the parts of a plan: the layer, the rank and what to change. Nothing: the parts are valid.
std::optional<std::string> undefined_statistics(const PlanData& data, const Mesh& mesh);

// Checks rules whose parts are given; parts that the planner chooses are not checked, nor are placed layers. LayoutError
void require_statistics(const Passes& passes, const Mesh& mesh, const LayoutRules& rules, const Layouts& layouts);

}  // namespace motley
