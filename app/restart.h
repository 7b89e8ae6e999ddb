// SPDX-License-Identifier: Apache-2.0
// `train --restart N`: what a launch that failed goes on with.
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

// A launch that is over.
struct Attempt {
  Outcome end{};
  std::string device{};  // of the rank that is to blame; empty: none is
  bool stepped = false;  // a step was done
};

// Whether the run goes on from here: a rank died or hung, or could not use its device any more. A device that could not be used at
// the very beginning is an error of the mesh.
bool goes_again(const std::vector<Attempt>& so_far);

// Devices to go on without, and why, a sentence each.
struct Gone {
  std::vector<int> ranks{};
  std::vector<std::string> why{};
};
// After the last of these: those of hosts that do not answer, that of a rank that could not use it, and that of one that died or
// hung twice with no step between.
Gone gone_after(const std::vector<Attempt>& so_far, const Mesh& mesh);  // mesh: of the last

// Makes the run directory ready for another launch, from its last good checkpoint: `options.from`, empty where there is none yet.
// UserError: none of its checkpoints can be read.
void go_on(RunDirectory& directory, Options& options, Console& console);

}  // namespace motley::app
