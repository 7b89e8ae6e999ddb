// SPDX-License-Identifier: Apache-2.0
// run.json where the user's own mpiexec started the ranks: when one dies, mpiexec kills all others before they can write.
#pragma once
#include <motley/mesh.h>
#include <sys/types.h>

#include "app/run_directory.h"

namespace motley::app {

// On rank 0: a child process that outlives this one's sudden end, and then writes that the run failed. Needs `directory` until its
// end.
class LastWord {
 public:
  LastWord(RunDirectory& directory, const Mesh& mesh);
  ~LastWord();  // this process says itself how it ended
  LastWord(const LastWord&) = delete;
  LastWord& operator=(const LastWord&) = delete;

 private:
  pid_t child_ = -1;
};

}  // namespace motley::app
