// SPDX-License-Identifier: Apache-2.0
#include "run/start.h"

#include <fcntl.h>
#include <motley/error.h>
#include <sched.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace motley {

namespace {

std::string environment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

int number(const std::string& text, int otherwise) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && at == end ? value : otherwise;
}

// Launchers that start several processes without PMI, by what each of these finds in its environment: the number of processes, and
// a variable that the launcher sets too, where leftovers of the first one are usual.
struct OtherLauncher {
  const char *name, *ranks, *also;
};
constexpr OtherLauncher kOthers[] = {
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
    {"Open MPI's mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"},
    {"MVAPICH's mpirun_rsh", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE"},
    {"flux run", "FLUX_JOB_SIZE", "FLUX_TASK_RANK"},
    {"jsrun", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK"},
    {"the mpiexec of Cray PALS", "PMI_SIZE", "PALS_RANKID"},
    {"torchrun", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"},
};

// Whether the socket to the process manager is open; a PMI_FD that was only inherited as text is not an open file.
bool manager_listens() {
  const int fd = number(environment("PMI_FD"), -1);
  return (fd >= 0 && fcntl(fd, F_GETFD) >= 0) || !environment("PMI_PORT").empty();
}

}  // namespace

Start how_started() {
  Start start;
  const int rank = number(environment("PMI_RANK"), -1), ranks = number(environment("PMI_SIZE"), -1);
  start.mpi = rank >= 0 && ranks > rank && manager_listens();
  if (start.mpi) {
    start.rank = rank;
    start.ranks = ranks;
    start.records = environment("MOTLEY_RUN_RECORDS");
    start.launched = !start.records.empty();
    if (start.launched) {
      start.device = environment("MOTLEY_DEVICE");
      start.kind = environment("MOTLEY_DEVICE_KIND");
    }
    return start;
  }
  for (const OtherLauncher& other : kOthers)
    if (const int tasks = number(environment(other.ranks), 1); tasks > 1 && !environment(other.also).empty()) {
      start.lone_tasks = tasks;
      start.lone_launcher = other.name;
      break;
    }
  return start;
}

std::string lone_tasks_text(const Start& start) {
  const std::string begun = start.lone_launcher + " started " + std::to_string(start.lone_tasks);
  return begun + (start.lone_launcher == kOthers[0].name
                      ? " tasks without PMI"
                      : " processes that cannot find each other (motley's MPI is MPICH, which needs PMI)");
}

std::string mark_result() {
  static const bool launched = how_started().launched;
  const bool marked = launched && std::fputc(kResultMark, stderr) != EOF && std::fflush(stderr) == 0;
  return marked ? std::string(1, kResultMark) : "";
}

std::vector<int> parse_cores(const std::string& text) {
  std::vector<int> cores;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const int core = number(text.substr(at, end - at), -1);
    if (core < 0 || core >= CPU_SETSIZE) throw UserError("\"" + text + "\" is not a list of cores such as 0,2");
    cores.push_back(core);
    at = end + 1;
  }
  return cores;
}

std::string to_text(const std::vector<int>& cores) {
  std::string text;
  for (int core : cores) text += (text.empty() ? "" : ",") + std::to_string(core);
  return text;
}

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) throw DeviceError(std::string("sched_getaffinity: ") + std::strerror(errno));
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; core++)
    if (CPU_ISSET(static_cast<std::size_t>(core), &set)) cores.push_back(core);
  return cores;
}

std::vector<int> spare_cores() {
  const std::string text = environment("MOTLEY_SPARE_CORES");
  return text.empty() ? std::vector<int>{} : parse_cores(text);
}

void bind_to_cores(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int core : cores) CPU_SET(static_cast<std::size_t>(core), &set);
  if (sched_setaffinity(0, sizeof set, &set) == 0) return;
  throw DeviceError("cannot run on core " + to_text(cores) + ": " + std::strerror(errno) + "; this process may use " +
                    to_text(allowed_cores()));
}

}  // namespace motley
