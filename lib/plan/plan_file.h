// SPDX-License-Identifier: Apache-2.0
// What a plan decided, as JSON; the plan follows from it, the step and the mesh.
#pragma once
#include "base/json.h"
#include "plan/plan_data.h"

namespace motley {

Json decisions_json(const PlanData& data, const Step& step, const Mesh& mesh);

}  // namespace motley
