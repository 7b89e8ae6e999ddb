// SPDX-License-Identifier: Apache-2.0
// `train --restart N`: how a run continues after a failed launch.
#pragma once
#include <motley/mesh.h>

#include <filesystem>
#include <string>
#include <vector>

#include "app/console.h"
#include "app/launcher.h"
#include "app/options.h"
#include "app/run_directory.h"

namespace motley::app {

// A launch that has ended.
struct Attempt {
  Outcome end{};
  std::string device{};  // device of the rank to blame; empty: there is none
  bool stepped = false;  // at least one step was done
};

// Whether the run continues from here: a rank died or hung, or could not use its device any more. A device that could not be used
// at the very beginning is an error of the mesh.
bool goes_again(const std::vector<Attempt>& so_far);

// Devices to continue without, and why, a sentence each.
struct Gone {
  std::vector<int> ranks{};
  std::vector<std::string> why{};
};
// After the last of these attempts: the devices of hosts that do not answer; if all do, that of a rank that could not use it, or
// that of one that died or hung twice with no step in between.
Gone gone_after(const std::vector<Attempt>& so_far, const Mesh& mesh);  // mesh: of the last attempt

// Prepares the run directory for another launch: if the last one has stepped, from its last good checkpoint (`options.from`; as
// before if there is none yet), else from where that one began. UserError: none of its checkpoints can be read.
void go_on(RunDirectory& directory, bool stepped, Options& options, Console& console);

}  // namespace motley::app
