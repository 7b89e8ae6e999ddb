// SPDX-License-Identifier: Apache-2.0
// run.json of a run whose process could not write it: the launcher if it was killed, and rank 0 if the user's own mpiexec started
// the ranks (when one dies, mpiexec kills all others before they can write).
#pragma once
#include <motley/mesh.h>
#include <sys/types.h>

#include <functional>

#include "app/launcher.h"
#include "app/run_directory.h"

namespace motley::app {

// A child process that outlives a sudden end of this one, and then, after `first`, writes how the run ended, unless the ranks have
// written it. Uses `directory` until its end.
class LastWord {
 public:
  LastWord(RunDirectory& directory, const Mesh& mesh, const Outcome& end, const std::function<void()>& first = {});
  ~LastWord();  // this process reports its own end
  LastWord(const LastWord&) = delete;
  LastWord& operator=(const LastWord&) = delete;

 private:
  pid_t child_ = -1;
};

}  // namespace motley::app
