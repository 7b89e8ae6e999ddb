// SPDX-License-Identifier: Apache-2.0
// A job whose mesh has "axes": "auto", on the mesh that the planner chooses.
#pragma once
#include <functional>
#include <string>

#include "app/options.h"
#include "config/job.h"

namespace motley::app {

// The job on its arranged mesh, with what was chosen; other jobs as they are. Devices keep their names and get the numbers of their
// new places. The mesh is that of --plan's file, or of the run that is resumed, if it has these devices; else that of the least
// predicted step, by the profile at hand; without one all devices are along one axis. progress: lines for people. UserError: as
// planning.
Job arranged(Job job, const Options& options = {}, const std::function<void(const std::string&)>& progress = {});

}  // namespace motley::app
