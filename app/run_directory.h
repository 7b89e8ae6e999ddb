// SPDX-License-Identifier: Apache-2.0
// The files of a run: one user at a time, no run lost by mistake, nothing kept of a run that never started.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "base/open_directory.h"

namespace motley {

// Files of a run directory, besides what --dump writes.
constexpr const char* kResolvedJob = "job.resolved.json";  // parts joined, --set applied
constexpr const char* kCommand = "command.json";           // the command line, a list of texts
constexpr const char* kRunFile = "run.json";
constexpr const char* kMetrics = "metrics.jsonl";
constexpr const char* kPlanFile = "plan.json";
constexpr const char* kProfileFile = "profile.json";  // of a run that was restarted on the remaining devices
constexpr const char* kJobFile = ".job";              // the path of the job's file from the working directory
constexpr const char* kAxesFile = ".axes.json";       // what "axes": "auto" chose for the launch

// SIGINT, SIGTERM and SIGHUP are blocked while an object of this class lives, except inside a SignalGuard (app/launch.h).
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  static bool stop_is_waiting();
};

// "runs/<name>-<UTC time>", a path that does not exist yet.
std::filesystem::path new_run_path(const std::string& job_name);

// A file that says: this directory is a run's, and motley may write, replace and remove what it calls its own in it.
constexpr const char* kMark = ".motley";

// Where the files of a previous run are kept while it is resumed or overwritten: until the first new step, or for good if no step
// is done.
constexpr const char* kAside = ".before";
// Called when the first step is done. ended: checkpoints that are dropped with them, at once.
void drop_aside(const OpenDirectory& run, const std::vector<std::string>& ended = {});

// Whether steps were done here, or there are weights or a checkpoint: what only --overwrite may remove or replace.
bool has_results(const OpenDirectory& run);

// A lock held by rank 0 as long as it may write into a run directory: it may outlive the process that has locked it. UserError (78)
class RanksHold {
 public:
  explicit RanksHold(const OpenDirectory& run);
  ~RanksHold();
  RanksHold(const RanksHold&) = delete;
  RanksHold& operator=(const RanksHold&) = delete;

 private:
  OpenDirectory run_;
  int lock_ = -1;
};

enum class IfRun : std::uint8_t { refuse, overwrite, resume };

class RunDirectory {
 public:
  // Created if it does not exist, and locked. UserError (78): it is neither empty nor a run's, or a name of ours in it is a link, a
  // pipe or another user's (nothing is touched then); another process uses it, or it holds results that must not be overwritten;
  // Error(io). Of a run that is overwritten its files and its checkpoints, and nothing else, are put aside now; of a
  // run that is resumed what its end left. All of it is moved back if no new step is done.
  RunDirectory(std::filesystem::path path, IfRun if_run);
  // A temporary directory, removed with its contents. Under `base` (which is created), or where temporary files go.
  static RunDirectory temporary(const std::filesystem::path& base = {});
  ~RunDirectory();
  RunDirectory(RunDirectory&& other) noexcept;
  RunDirectory& operator=(RunDirectory&&) = delete;
  const OpenDirectory& files() const { return files_; }
  const std::filesystem::path& path() const { return path_; }
  // Removes what this run has put there, and the directory itself if it was created and is then empty. A run that is resumed, or
  // has done steps, stays.
  void forget();
  bool resumed() const { return resumed_; }
  // The same process runs it again: what the run's end left is put aside, unless something still is, since no step was done in
  // between. Error(io)
  void go_on();

 private:
  RunDirectory() = default;
  void make();
  void lock();
  void unlock();
  void leave();
  void put_aside();
  void restore();
  void require_ours() const;
  std::filesystem::path path_{};
  OpenDirectory files_{};
  std::vector<std::filesystem::path> made_{};  // directories, outermost first
  int lock_ = -1;
  bool temporary_ = false, resumed_ = false;
};

}  // namespace motley
