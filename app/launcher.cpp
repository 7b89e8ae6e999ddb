// SPDX-License-Identifier: Apache-2.0
#include "app/launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <motley/error.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

#include "app/launch.h"
#include "app/launch_processes.h"
#include "app/reach_hosts.h"
#include "base/files.h"
#include "base/units.h"
#include "run/launcher_lock.h"
#include "run/records.h"
#include "run/shared_space.h"
#include "run/start.h"

namespace motley {

namespace {

namespace fs = std::filesystem;

// Shared memory counts as a file: MPI's own, of up to 8 MiB each, and the buffers that the ranks share, which say so where they do
// not fit. A rank for which MPI has no memory ends without a word.
void check_file_limit() {
  constexpr rlim_t kNeeded = rlim_t{10} << 20;
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= kNeeded) return;
  throw DeviceError(
      fmt::format("the largest file that this shell allows has {} (ulimit -f), and that goes for memory that the ranks "
                  "share; they need {} and more; raise it",
                  bytes_text(static_cast<double>(limit.rlim_cur)), bytes_text(static_cast<double>(kNeeded))));
}

fs::path records_in(const fs::path& run_directory) {
  return fs::absolute(run_directory) / ".ranks";
}

// A separate directory for the ranks' records, removed at the end.
class RecordsDirectory {
 public:
  RecordsDirectory(const fs::path& run_directory, std::size_t ranks) {
    make(run_directory);
    ask_for_room(ranks);
    lives_.emplace(path_);
  }
  ~RecordsDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  RecordsDirectory(const RecordsDirectory&) = delete;
  RecordsDirectory& operator=(const RecordsDirectory&) = delete;
  const fs::path& path() const { return path_; }

 private:
  void make(const fs::path& run_directory) {
    if (run_directory.empty()) {
      std::string name = (fs::temp_directory_path() / "motley-XXXXXX").string();
      if (mkdtemp(name.data()) == nullptr) throw Error(Exit::io, name + ": " + std::strerror(errno));
      path_ = name;
      return;
    }
    path_ = records_in(run_directory);
    fs::remove_all(path_);  // left by a launcher that was killed; the caller holds the run directory's lock
    fs::create_directory(path_);
  }
  // Checks for space: a rank that cannot write its record ends alone, and the others wait for it while MPI starts.
  void ask_for_room(std::size_t ranks) const {
    const fs::path file = path_ / "room";
    const Handle room(::open(file.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
    const int failed = room ? posix_fallocate(room.get(), 0, static_cast<off_t>(2 * sizeof(Record) * ranks)) : errno;
    std::error_code ignored;
    fs::remove(file, ignored);
    if (failed == 0) return;
    fs::remove_all(path_, ignored);
    throw Error(Exit::io, path_.string() + ": " + std::strerror(failed) + ": no space for the ranks' heartbeat records");
  }
  fs::path path_;
  std::optional<LauncherLock> lives_{};
};

}  // namespace

std::vector<std::string> absent_cores(const std::vector<Device>& devices) {
  const std::vector<int> allowed = allowed_cores();
  std::vector<std::string> out;
  for (std::size_t rank = 0; rank < devices.size(); rank++) {
    std::vector<int> absent = devices[rank].host.empty() ? devices[rank].cores : std::vector<int>{};
    std::erase_if(absent, [&](int core) { return std::find(allowed.begin(), allowed.end(), core) != allowed.end(); });
    if (!absent.empty())
      out.push_back("rank " + std::to_string(rank) + " (" + devices[rank].name + ") requests core " + to_text(absent) +
                    "; this process may use " + to_text(allowed) + "; change \"cores\" in the mesh or leave it out");
  }
  return out;
}

Outcome launch_ranks(const LaunchOptions& options) {
  check(!options.devices.empty(), "there is a device to launch a rank for");
  check_file_limit();
  if (const auto ranks = static_cast<int>(options.devices.size()); ranks > 1 && on_one_host(options.devices))
    if (const std::string fault = shared_space_fault(shared_space(), ranks); !fault.empty()) throw DeviceError(fault);
  if (const std::vector<std::string> absent = absent_cores(options.devices); !absent.empty()) throw DeviceError(absent.front());
  static_cast<void>(find_mpiexec());  // before anything is written
  const SignalGuard signals;
  reach_hosts(options.devices);
  const RecordsDirectory records(options.run_directory, options.devices.size());
  if (signals_so_far() > 0) return {static_cast<int>(Exit::stopped), -1, "stopped on request", false, true};
  Launch running(options, records.path());
  return running.wait();
}

void await_ranks(const fs::path& run_directory, int ranks) {
  const fs::path records = records_in(run_directory);
  const std::string variable = records_variable(records);
  Watch watch(records, ranks, Limits::from_environment());
  const auto began = std::chrono::steady_clock::now();
  for (auto now = began; now < began + kSavePatience && !processes_with(variable).empty(); now = std::chrono::steady_clock::now()) {
    watch.poll();
    // mpiexec was requested to end before MPI had started on all ranks: it may never do so.
    if (now > began + kReadyPatience && !watch.all_ready()) end_processes_with(variable);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  std::error_code ignored;
  fs::remove_all(records, ignored);
}

int launch(const LaunchOptions& options) {
  Outcome end;
  try {
    end = launch_ranks(options);
  } catch (const Error& e) {
    end = {static_cast<int>(e.code()), -1, e.what(), false};
  } catch (const fs::filesystem_error& e) {
    end = {static_cast<int>(Exit::io), -1, text_of(e), false};
  } catch (const std::exception& e) {
    end = {static_cast<int>(Exit::internal), -1, std::string("unexpected: ") + e.what(), false};
  }
  if (!end.said && !end.reason.empty()) std::fputs(("motley: " + end.reason + "\n").c_str(), stderr);
  return end.code;
}

Role role(int mesh_ranks) {
  const Start start = how_started();
  if (start.lone_tasks > 0)
    throw UserError(fmt::format("{}, the mesh has {} device{}; start motley alone (it starts its ranks itself), or with {} -n {}",
                                lone_tasks_text(start), mesh_ranks, mesh_ranks == 1 ? "" : "s",
                                start.lone_launcher == "srun" ? "srun --mpi=pmi2" : "MPICH's mpiexec", mesh_ranks));
  if (!start.mpi) return Role::launcher;
  if (start.ranks != mesh_ranks)
    throw UserError(fmt::format(
        "started on {} rank{}, but the mesh has {} device{}; use -n {}, or start motley alone (it starts its ranks itself)",
        start.ranks, start.ranks == 1 ? "" : "s", mesh_ranks, mesh_ranks == 1 ? "" : "s", mesh_ranks));
  return Role::rank;
}

}  // namespace motley
