// SPDX-License-Identifier: Apache-2.0
// A plan's decisions as JSON; the plan follows from these, the step and the mesh.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "plan/plan_data.h"

namespace motley {

// Version of the file. 5 hashed the optimizer's decay with the step, 4 hashed the learning rate with the step, 3 had schedules and
// tiles in two lists, 2 could name routed moves and blocked formats, 1 used another hash and had no "version".
inline constexpr int kPlanVersion = 6;

// Whether a file is a plan that can be read; whether it fits a step and a mesh only Plan::load can check. UserError with every
// complaint.
void check_plan_file(const std::filesystem::path& file);

std::string hex(std::uint64_t value);
Json sizes_json(const std::vector<Index>& list);
Json kept_json(const Plan& plan);  // all that is read back: the decisions, what was predicted, why
Json to_json(const AxesChoice& axes);
AxesChoice axes_of_text(const std::string& name, const std::string& text);  // of that JSON. UserError
// "image [128, 1, 28, 28]", "conv2d_1.weight [40, 1, 3, 3]": inputs, labels and parameters, which differ in a plan of another
// network.
std::vector<std::string> network_of(const Passes& passes);
// The text of the plan of the evaluation beside training in such a file; nothing: the file has none. UserError: not a plan.
std::optional<std::string> evaluation_text(const std::string& name, const std::string& text);
// What the plan was made for, a hash of the job's mesh and layout; empty: not given.
std::string made_for(const std::string& name, const std::string& text);
// These devices along the axes and in the order of such a text; nothing: it has other devices, or its axes do not fit them.
std::optional<Mesh> mesh_of_text(const std::string& name, const std::string& text, const Mesh& devices);
// The plan from such a text. UserError as from Plan::load; name: used in its messages.
Plan plan_of_text(const std::string& name, const std::string& text, const Step& step, const Mesh& mesh);

}  // namespace motley
