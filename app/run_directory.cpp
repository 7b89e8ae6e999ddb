// SPDX-License-Identifier: Apache-2.0
#include "app/run_directory.h"

#include <fcntl.h>
#include <motley/error.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string_view>
#include <utility>

#include "app/stop_signals.h"
#include "base/files.h"
#include "run/trace_summary.h"
#include "train/skip_damaged.h"
#include "weights/checkpoint.h"

namespace motley {

namespace {

namespace fs = std::filesystem;

constexpr const char* kLock = ".lock";
constexpr const char* kDropped = ".dropped";  // what was put aside, while it is removed
constexpr const char* kPart = ".part";        // a copy that is not complete
constexpr std::array kFilesOfARun{kResolvedJob, kCommand,     kJobFile,   kRunFile,     kMetrics,
                                  kPlanFile,    kProfileFile, kTraceFile, kWeightsFile, kDamagedFile};
constexpr std::array kEndOfARun{kRunFile, kTraceFile, kWeightsFile};

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kStopSignals) sigaddset(&set, signal);
  return set;
}

Error directory_error(const fs::path& path, int number) {
  return {Exit::io, path.string() + ": " + std::strerror(number)};
}

// Removes the run's files and its checkpoints; other files stay.
void remove_run(const fs::path& directory) {
  for (const char* name : kFilesOfARun) fs::remove(directory / name);
  for (const fs::path& checkpoint : checkpoints_of(directory)) fs::remove_all(checkpoint);
  std::error_code not_empty;
  fs::remove(directory / kCheckpoints, not_empty);
}

bool holds_a_run(const fs::path& directory) {
  for (const char* name : {kRunFile, kMetrics, kResolvedJob, kWeightsFile})
    if (fs::exists(directory / name)) return true;
  return false;
}

// A lock file that its last user has removed is no longer a lock.
bool is_still(int file, const fs::path& path) {
  struct stat opened {
  }, named{};
  return fstat(file, &opened) == 0 && stat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

std::string pid_in(int file) {
  std::array<char, 32> text{};
  const ssize_t n = pread(file, text.data(), text.size() - 1, 0);
  return n > 0 ? " (process " + std::string(text.data(), static_cast<std::size_t>(n)) + ")" : "";
}

}  // namespace

HeldSignals::HeldSignals() {
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

HeldSignals::~HeldSignals() {
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

bool HeldSignals::stop_is_waiting() {
  sigset_t waiting;
  if (sigpending(&waiting) != 0) return false;
  return std::any_of(kStopSignals.begin(), kStopSignals.end(), [&](int signal) { return sigismember(&waiting, signal) == 1; });
}

fs::path new_run_path(const std::string& job_name) {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> time{};
  std::strftime(time.data(), time.size(), "%Y%m%dT%H%M%SZ", &utc);
  const std::string base = "runs/" + job_name + "-" + time.data();
  fs::path path = base;
  for (int i = 2; fs::exists(path); i++) path = base + "-" + std::to_string(i);
  return path;
}

bool has_results(const fs::path& directory) {
  return fs::exists(directory / kWeightsFile) || !checkpoints_of(directory).empty() ||
         (fs::exists(directory / kMetrics) && fs::file_size(directory / kMetrics) > 0);
}

void drop_aside(const fs::path& run, const std::vector<fs::path>& ended) {
  std::error_code ignored;
  if (!ended.empty()) fs::create_directories(run / kAside / kCheckpoints, ignored);
  for (const fs::path& checkpoint : ended) fs::rename(checkpoint, run / kAside / kCheckpoints / checkpoint.filename(), ignored);
  fs::remove_all(run / kDropped, ignored);
  fs::rename(run / kAside, run / kDropped, ignored);  // at once: remains that a kill leaves are not taken for a run
  fs::remove_all(run / kDropped, ignored);
}

RanksHold::RanksHold(const fs::path& run) : file_(run / ".ranks.lock") {
  lock_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock_ < 0) throw directory_error(file_, errno);
  if (flock(lock_, LOCK_EX | LOCK_NB) == 0) return;
  const int why = errno;
  ::close(lock_);
  if (why != EWOULDBLOCK) throw directory_error(file_, why);
  throw UserError(run.string() +
                  ": ranks of a run whose launcher died still write there; wait a few seconds until they have exited");
}

RanksHold::~RanksHold() {
  std::error_code ignored;
  fs::remove(file_, ignored);
  ::close(lock_);
}

RunDirectory::RunDirectory(fs::path path, IfRun if_run) : path_(std::move(path)) {
  try {
    make();
    lock();
    restore();  // left by a process that was killed before its first step
    remove_unfinished();
    if (!holds_a_run(path_)) return;
    if (if_run == IfRun::refuse && has_results(path_))
      throw UserError(path_.string() +
                      " holds a run; give another --run-dir, --resume to continue it or --overwrite to replace it");
    if (if_run == IfRun::resume)
      go_on();
    else
      put_aside();
  } catch (const fs::filesystem_error& e) {
    leave();
    throw Error(Exit::io, text_of(e));
  } catch (...) {
    leave();
    throw;
  }
}

RunDirectory RunDirectory::temporary(const fs::path& base) {
  RunDirectory out;
  std::error_code error;
  fs::path under = base;
  if (base.empty()) {
    under = fs::temp_directory_path(error);
    if (error) throw Error(Exit::io, "no directory for temporary files (TMPDIR): " + error.message());
  } else {
    out.path_ = base;
    out.make();
  }
  std::string name = (fs::absolute(under) / "motley-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw directory_error(name, errno);
  out.path_ = name;
  out.temporary_ = true;
  return out;
}

RunDirectory::RunDirectory(RunDirectory&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      made_(std::exchange(other.made_, {})),
      lock_(std::exchange(other.lock_, -1)),
      temporary_(std::exchange(other.temporary_, false)),
      resumed_(other.resumed_) {}

RunDirectory::~RunDirectory() {
  std::error_code ignored;
  if (temporary_) {
    fs::remove_all(path_, ignored);
    leave();
  }
  if (lock_ >= 0) restore();
  unlock();
}

// Like create_directories, but remembers which ones were created.
void RunDirectory::make() {
  std::vector<fs::path> missing;
  for (fs::path at = plain_path(path_); !at.empty() && !fs::exists(at); at = at.parent_path()) missing.push_back(at);
  for (auto at = missing.rbegin(); at != missing.rend(); ++at) {
    if (mkdir(at->c_str(), 0777) == 0)
      made_.push_back(*at);
    else if (errno != EEXIST)
      throw directory_error(*at, errno);
  }
  if (!fs::is_directory(path_)) throw UserError(path_.string() + " is not a directory; expected the directory of a run");
}

void RunDirectory::lock() {
  const fs::path file = path_ / kLock;
  do {
    if (lock_ >= 0) ::close(lock_);
    lock_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock_ < 0) throw directory_error(file, errno);
    if (flock(lock_, LOCK_EX | LOCK_NB) == 0) continue;
    const int why = errno;
    const std::string holder = pid_in(lock_);
    ::close(std::exchange(lock_, -1));
    if (why != EWOULDBLOCK) throw directory_error(file, why);
    throw UserError(path_.string() + " is used by another run" + holder + "; wait until it ends, or give another --run-dir");
  } while (!is_still(lock_, file));
  try {
    const RanksHold none(path_);
  } catch (...) {
    unlock();
    throw;
  }
  const std::string pid = std::to_string(getpid());
  if (ftruncate(lock_, 0) != 0 || pwrite(lock_, pid.data(), pid.size(), 0) < 0) {
    const int why = errno;
    unlock();
    throw directory_error(file, why);
  }
}

void RunDirectory::unlock() {
  if (lock_ < 0) return;
  try {
    const RanksHold none(path_);  // also removes what a killed rank has left
  } catch (const Error&) {        // ranks still write: the files are theirs
  }
  std::error_code ignored;
  fs::remove(path_ / kLock, ignored);
  ::close(std::exchange(lock_, -1));
}

void RunDirectory::go_on() {
  if (fs::is_directory(path_ / kAside)) return;
  try {
    fs::create_directories(path_ / kAside);
    for (const char* name : kFilesOfARun) {
      const bool ends = std::find(kEndOfARun.begin(), kEndOfARun.end(), std::string_view(name)) != kEndOfARun.end();
      if (!fs::exists(path_ / name)) continue;
      if (!ends) fs::copy(path_ / name, path_ / kAside / kPart);
      fs::rename(ends ? path_ / name : path_ / kAside / kPart, path_ / kAside / name);
    }
  } catch (const fs::filesystem_error& e) {
    throw Error(Exit::io, text_of(e));
  }
  resumed_ = true;
}

void RunDirectory::put_aside() {
  fs::create_directories(path_ / kAside / kCheckpoints);
  for (const char* name : kFilesOfARun)
    if (fs::exists(path_ / name)) fs::rename(path_ / name, path_ / kAside / name);
  for (const fs::path& checkpoint : checkpoints_of(path_))
    fs::rename(checkpoint, path_ / kAside / kCheckpoints / checkpoint.filename());
  std::error_code not_empty;
  fs::remove(path_ / kCheckpoints, not_empty);
}

// Moves back what was put aside, unless a step has dropped it.
void RunDirectory::restore() {
  const fs::path aside = path_ / kAside;
  std::error_code failed;
  fs::remove_all(path_ / kDropped, failed);
  if (!fs::is_directory(aside, failed)) return;
  fs::remove(aside / kPart, failed);
  for (const fs::path& checkpoint : checkpoints_of(aside)) {
    fs::create_directories(path_ / kCheckpoints, failed);
    fs::rename(checkpoint, path_ / kCheckpoints / checkpoint.filename(), failed);
  }
  for (const char* name : kFilesOfARun)
    if (fs::exists(aside / name, failed)) fs::rename(aside / name, path_ / name, failed);
  fs::remove(aside / kCheckpoints, failed);
  fs::remove(aside, failed);  // except what could not be moved
}

// Files that a killed process was writing.
void RunDirectory::remove_unfinished() const {
  std::error_code failed;
  for (fs::directory_iterator it(path_, failed), end; !failed && it != end; it.increment(failed)) {
    const std::string name = it->path().filename().string(), its = made_for(name);
    if (its != name && std::find(kFilesOfARun.begin(), kFilesOfARun.end(), its) != kFilesOfARun.end()) {
      std::error_code stays;
      fs::remove(it->path(), stays);
    }
  }
}

void RunDirectory::forget() {
  try {
    if (!resumed_ && !has_results(path_)) remove_run(path_);
  } catch (const fs::filesystem_error&) {  // what cannot be removed stays
  }
  leave();
}

// Also removes the directories that were created, if they are empty.
void RunDirectory::leave() {
  std::error_code ignored;
  if (lock_ >= 0) restore();
  unlock();
  for (auto made = made_.rbegin(); made != made_.rend(); ++made) fs::remove(*made, ignored);
}

}  // namespace motley
