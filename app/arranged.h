// SPDX-License-Identifier: Apache-2.0
// A job whose mesh has "axes": "auto", on the mesh that the planner chooses.
#pragma once
#include <filesystem>
#include <string>
#include <utility>

#include "config/job.h"

namespace motley::app {

// The job on its arranged mesh, and what was chosen, for people; other jobs as they are, with no text. Devices keep their names and
// get the numbers of their new places. plan: a file that says the mesh; empty: the least predicted step, by the profile at hand;
// without one all devices are along one axis. UserError: as planning.
std::pair<Job, std::string> arranged(Job job, const std::filesystem::path& plan);

}  // namespace motley::app
