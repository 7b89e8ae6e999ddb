// SPDX-License-Identifier: Apache-2.0
#include "bench/support/mpi_ranks.h"

#include <motley/error.h>
#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>

#include "mesh/mpi_session.h"

extern char** environ;

namespace motley::bench {

std::string own_path() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

int run_mpiexec(std::vector<std::string> words) {
  words.insert(words.begin(), "mpiexec");
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  int status = 0;
  if (posix_spawnp(&child, "mpiexec", nullptr, nullptr, argv.data(), environ) != 0 || waitpid(child, &status, 0) != child)
    throw UserError("cannot start mpiexec: install mpich");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 70;
}

bool stay_on_core(int k) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
  CPU_ZERO(&one);
  for (int core = 0; core < CPU_SETSIZE; core++)
    if (CPU_ISSET(core, &allowed) && k-- == 0) {
      CPU_SET(core, &one);
      return sched_setaffinity(0, sizeof one, &one) == 0;
    }
  return false;
}

int on_rank(const char* name, int argc, char** argv, const std::function<void(Transport&)>& work) {
  MpiSession session(argc, argv);
  try {
    work(*session.transport());
  } catch (const Error& e) {
    std::fprintf(stderr, "%s: %s\n", name, e.what());
    MpiSession::abort(static_cast<int>(e.code()));
  }
  session.finish();
  return 0;
}

}  // namespace motley::bench
