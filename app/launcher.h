// SPDX-License-Identifier: Apache-2.0
// Starts one rank per device through mpiexec, watches the ranks, and reports how the run ended. Makes no MPI call.
#pragma once
#include <motley/device.h>

#include <filesystem>
#include <string>
#include <vector>

namespace motley {

struct LaunchOptions {
  std::vector<Device> devices{};          // of the mesh: one rank each
  std::vector<std::string> arguments{};   // for every rank: a verb, the run directory; none may be ":"
  std::filesystem::path run_directory{};  // exists; holds the ranks' records while they run. Empty: a temporary one
  std::filesystem::path program{};        // empty: this program
  std::vector<int> units{};               // processing units that ranks get in turn; empty: those that this process may use
};

// How the ranks ended.
struct Outcome {
  int code = 0;          // the greatest of all ranks; 86: one died or hung; 75: stopped by a signal
  int rank = -1;         // the rank to blame, if it is a single one
  std::string reason{};  // one sentence; empty when all went well
  bool said = false;     // a rank has already printed it on stderr
  bool early = false;    // stopped by a signal that came before the ranks were ready
};

// A sentence for each rank of this machine that has `cores` which this process may not use.
std::vector<std::string> absent_cores(const std::vector<Device>& devices);

// stdout of the ranks goes to stdout. SIGINT, SIGTERM and SIGHUP end the ranks in order (delayed until all of them are ready, 5 s
// at most), a second signal ends them at once. Leaves no process, no record and no shared memory.
// DeviceError: absent cores, there is no mpiexec, a host cannot be reached, or /dev/shm is too small; Error(io).
Outcome launch_ranks(const LaunchOptions& options);

// After a launcher in that run directory ended suddenly: returns when its ranks on this host have ended too (they save what they
// have; 10 min at most; killed if MPI has not started on all of them after 5 s), and removes their records.
void await_ranks(const std::filesystem::path& run_directory, int ranks);

// The same; prints what has not been printed yet, and returns the exit code. Throws nothing.
int launch(const LaunchOptions& options);

// What this process is: a rank (of launch(), or of the user's own mpiexec or srun), or the launcher of ranks.
// UserError (78): started on another number of ranks than the mesh has, or as tasks that do not know each other.
enum class Role { launcher, rank };
Role role(int mesh_ranks);

}  // namespace motley
