// SPDX-License-Identifier: Apache-2.0
#include "app/last_word.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "app/launch.h"
#include "app/run_end.h"

namespace motley::app {

namespace {

// mpiexec waits until no process has its pipes and its socket open. Their descriptors are occupied by other files, so that files
// written later get other descriptors, whatever a library prints on stderr.
void leave_mpiexec() {
  setsid();
  const int nothing = open("/dev/null", O_RDWR);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (nothing < 0 || dup2(nothing, stream) < 0) close(stream);
  if (const char* socket = std::getenv("PMI_FD"); socket != nullptr) close(std::atoi(socket));
}

}  // namespace

LastWord::LastWord(RunDirectory& directory, const Mesh& mesh, const Outcome& end, const std::function<void()>& first) {
  const Handle parent = open_process(getpid());
  if (!parent) return;  // an old kernel: run.json will not be written
  child_ = fork();
  if (child_ != 0) return;
  leave_mpiexec();
  pollfd its_end{parent.get(), POLLIN, 0};
  while (::poll(&its_end, 1, -1) < 0) {
  }
  try {
    RunDirectory own = std::move(directory);  // its lock ends with this process
    if (first) first();
    write_failed_run(own.files(), end, mesh);
  } catch (const std::exception&) {  // nothing reads stderr any more
  }
  _exit(0);
}

LastWord::~LastWord() {
  if (child_ <= 0) return;
  kill(child_, SIGKILL);
  waitpid(child_, nullptr, 0);
}

}  // namespace motley::app
