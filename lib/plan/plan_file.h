// SPDX-License-Identifier: Apache-2.0
// What a plan decided, as JSON; the plan follows from it, the step and the mesh.
#pragma once
#include <filesystem>
#include <string>

#include "base/json.h"
#include "plan/plan_data.h"

namespace motley {

// Of the file. 4 hashed the learning rate with the step, 3 had schedules and tiles in two lists, 2 could name routed moves and
// blocked formats, 1 was hashed otherwise and had no "version".
inline constexpr int kPlanVersion = 5;

// Whether a file is a plan that can be read; for which step and mesh only Plan::load can tell. UserError with every complaint.
void check_plan_file(const std::filesystem::path& file);

std::string hex(std::uint64_t value);
Json kept_json(const Plan& plan);  // all that is read again: the decisions, what was predicted, why
// The plan of such a text. UserError as of Plan::load; name: in its messages.
Plan plan_of_text(const std::string& name, const std::string& text, const Step& step, const Mesh& mesh);

}  // namespace motley
