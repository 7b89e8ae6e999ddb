// SPDX-License-Identifier: Apache-2.0
// run.json of a run that its ranks could not finish themselves.
#pragma once
#include <motley/mesh.h>

#include "app/launcher.h"
#include "base/open_directory.h"

namespace motley::app {

bool finished(const OpenDirectory& directory);     // run.json has the status "done"
bool has_stepped(const OpenDirectory& directory);  // its last ranks have done a step
bool has_ended(const OpenDirectory& directory);    // its ranks wrote how it ended
// If the ranks have not written how it ended, writes: status, code, rank and reason; steps and loss from metrics.jsonl; figures
// that are not known are null. A stopped run without weights gets those of its newest good checkpoint, and the step of that
// checkpoint, unless a second signal came. Writes nothing into a directory that was renamed or removed. Error(io).
void write_failed_run(const OpenDirectory& directory, const Outcome& end, const Mesh& mesh);

}  // namespace motley::app
