// SPDX-License-Identifier: Apache-2.0
// Where a step's seconds go, layer by layer.
#pragma once
#include <motley/plan.h>

#include <string>

#include "base/json.h"
#include "program/layer_seconds.h"

namespace motley {

// The slowest first, at most 20 of them unless full; up to 4 ranks have a column each. Empty without layers. At most 100 columns.
std::string layer_table(const StepByLayer& step, PlanDetail detail);
// In the plan's order; null without layers.
Json layers_json(const StepByLayer& step);

}  // namespace motley
