// SPDX-License-Identifier: Apache-2.0
// run.json of a run that its ranks could not finish themselves.
#pragma once
#include <motley/mesh.h>

#include <filesystem>

#include "app/launcher.h"

namespace motley::app {

bool finished(const std::filesystem::path& directory);     // run.json has the status "done"
bool has_stepped(const std::filesystem::path& directory);  // its last ranks have done a step
bool has_ended(const std::filesystem::path& directory);    // its ranks wrote how it ended
// If the ranks have not written how it ended, writes: status, code, rank and reason; steps and loss from metrics.jsonl; figures
// that are not known are null. A stopped run without weights gets those of its newest good checkpoint, and the step of that
// checkpoint, unless a second signal came. Error(io).
void write_failed_run(const std::filesystem::path& directory, const Outcome& end, const Mesh& mesh);

}  // namespace motley::app
