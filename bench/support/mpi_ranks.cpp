// SPDX-License-Identifier: Apache-2.0
#include "bench/support/mpi_ranks.h"

#include <motley/error.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>

#include "mesh/mpi_session.h"
#include "run/start.h"

extern char** environ;

namespace motley::bench {

std::string own_path() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

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

bool stay_on_core(std::size_t k) {
  const std::vector<int> cores = allowed_cores();
  if (k >= cores.size()) return false;
  bind_to_cores({cores[k]});
  return true;
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
