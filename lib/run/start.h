// SPDX-License-Identifier: Apache-2.0
// How this process was started, from its environment; and its binding to cores.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace motley {

struct Start {
  bool mpi = false;       // by mpiexec or srun with PMI: MPI_Init will find the other ranks
  bool launched = false;  // by motley's own launcher
  int rank = 0, ranks = 1;
  // By a launcher that speaks no PMI of MPICH's: number of processes, which do not know each other, and its name; else 0.
  int lone_tasks = 0;
  std::string lone_launcher{};
  std::filesystem::path records{};  // launched: location of the ranks' records
  std::string device{}, kind{};     // launched: of this rank
};
// Leftovers in the environment (PMI_RANK without its socket, SLURM_JOB_ID) are ignored.
Start how_started();
// "srun started 2 tasks without PMI", of lone tasks.
std::string lone_tasks_text(const Start& start);

// The launcher reads the ranks' stdout and stderr from two pipes. In a launched rank: writes this mark to stderr, and returns it,
// to be written to stdout before a result, which the launcher then shows after what stderr had before the mark. Else: "".
inline constexpr char kResultMark = '\0';
std::string mark_result();

// "0,2,3". UserError: not such a list.
std::vector<int> parse_cores(const std::string& text);
std::string to_text(const std::vector<int>& cores);
// The cores this process may use.
std::vector<int> allowed_cores();
// Cores of this machine to which the launcher has bound no rank of the run; none: there are none, or it is not known.
std::vector<int> spare_cores();
// Binds this thread and those that it will start. DeviceError.
void bind_to_cores(const std::vector<int>& cores);

}  // namespace motley
