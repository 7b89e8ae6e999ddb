// SPDX-License-Identifier: Apache-2.0
// How this process was started, by its environment; and its binding to cores.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace motley {

struct Start {
  bool mpi = false;       // by mpiexec or srun with PMI: MPI_Init will find the others
  bool launched = false;  // by motley's own launcher
  int rank = 0, ranks = 1;
  int lone_tasks = 0;               // by srun without PMI: so many tasks that know nothing of each other; else 0
  std::filesystem::path records{};  // launched: where the ranks' records are
  std::string device{}, kind{};     // launched: of this rank
};
// What is left over in the environment (PMI_RANK without its socket, SLURM_JOB_ID) counts for nothing.
Start how_started();

// "0,2,3". UserError: no such list.
std::vector<int> parse_cores(const std::string& text);
std::string to_text(const std::vector<int>& cores);
// The cores this process may use.
std::vector<int> allowed_cores();
// Cores of this machine that no rank of the run is bound to, by the launcher; none: there are none, or it is not known.
std::vector<int> spare_cores();
// Binds this thread and those it will start. DeviceError.
void bind_to_cores(const std::vector<int>& cores);

}  // namespace motley
