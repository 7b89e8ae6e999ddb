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
#include <string_view>
#include <utility>

#include "app/stop_signals.h"
#include "base/clock.h"
#include "base/files.h"
#include "run/timeline_file.h"
#include "run/trace_summary.h"
#include "train/event_file.h"
#include "train/skip_damaged.h"
#include "weights/checkpoint.h"

namespace motley {

namespace {

namespace fs = std::filesystem;

constexpr const char* kLock = ".lock";
constexpr const char* kDropped = ".dropped";  // what was put aside, while it is removed
constexpr const char* kRanksLock = ".ranks.lock";
constexpr const char* kRecords = ".ranks";
constexpr std::array kFilesOfARun{kResolvedJob,  kCommand,    kJobFile,     kAxesFile,      kRunFile,
                                  kMetrics,      kPlanFile,   kProfileFile, kStepTimesFile, kOldStepTimesFile,
                                  kTimelineFile, kEventsFile, kWeightsFile, kDamagedFile};
constexpr std::array kEndOfARun{kRunFile, kStepTimesFile, kOldStepTimesFile, kTimelineFile, kWeightsFile};

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kStopSignals) sigaddset(&set, signal);
  return set;
}

Error directory_error(const fs::path& path, int number) {
  return {Exit::io, path.string() + ": " + std::strerror(number)};
}

using Kind = OpenDirectory::Kind;

// Removes the run's files and its checkpoints; other files stay.
void remove_run(const OpenDirectory& run) {
  for (const char* name : kFilesOfARun) run.remove(name);
  const auto checkpoints = run.find(kCheckpoints);
  if (!checkpoints) return;
  for (const std::string& name : checkpoints_in(run))
    if (is_own_checkpoint(*checkpoints / name)) checkpoints->remove_all(name);
  run.remove(kCheckpoints);
}

bool holds_a_run(const OpenDirectory& run) {
  constexpr std::array kNames{kRunFile, kMetrics, kResolvedJob, kWeightsFile};
  return std::any_of(kNames.begin(), kNames.end(), [&](const char* name) { return run.has(name); }) || has_results(run);
}

// Files that a killed process was writing.
void remove_unfinished(const OpenDirectory& in) {
  for (const std::string& name : in.names())
    if (const std::string its = made_for(name);
        its != name && (its == kMark || std::find(kFilesOfARun.begin(), kFilesOfARun.end(), its) != kFilesOfARun.end()))
      in.remove(name);
}

// A lock file that its last user has removed is no longer a lock.
bool is_still(int file, const OpenDirectory& in, const char* name) {
  struct stat opened {
  }, named{};
  return fstat(file, &opened) == 0 && fstatat(in.fd(), name, &named, AT_SYMLINK_NOFOLLOW) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

// A descriptor of the lock; -1: errno.
int open_lock(const OpenDirectory& in, const char* name) {
  return openat(in.fd(), name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
}

void require_plain(const OpenDirectory& in, const std::string& name, Kind kind) {
  if (const std::string wrong = in.why_not(name, kind); !wrong.empty()) throw UserError((in / name).path().string() + " " + wrong);
}

// A file that is written in place has no other name, which it would be written under too.
void require_one_name(const OpenDirectory& in, const char* name) {
  struct stat its {};
  if (fstatat(in.fd(), name, &its, AT_SYMLINK_NOFOLLOW) == 0 && its.st_nlink > 1)
    throw UserError((in / name).path().string() + " is a hard link: the file has another name too; remove this one");
}

// Of what a run's files are, and what is aside.
void require_plain_run(const OpenDirectory& in) {
  for (const char* name : kFilesOfARun) require_plain(in, name, Kind::file);
  require_plain(in, kCheckpoints, Kind::directory);
  if (const auto checkpoints = in.find(kCheckpoints))
    for (const std::string& name : checkpoints->names())
      if (name.starts_with("step-") && step_of(fs::path(name).stem())) require_plain(*checkpoints, name, Kind::directory);
}

// Older runs have no mark: a joined job, and what its run has left.
bool is_unmarked_run(const OpenDirectory& run) {
  if (run.kind(kResolvedJob) != Kind::file) return false;
  if (run.has(kCommand) || run.has(kRunFile)) return true;
  const auto checkpoints = run.find(kCheckpoints);
  const std::vector<std::string> kept = checkpoints_in(run);
  return std::any_of(kept.begin(), kept.end(), [&](const std::string& name) { return is_own_checkpoint(*checkpoints / name); });
}

bool is_empty(const OpenDirectory& directory) {
  constexpr std::array<std::string_view, 4> kOurs{kLock, kRanksLock, kRecords, kMark};
  const std::vector<std::string> names = directory.names();
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) {  // also what a killed process was writing
    return std::find(kOurs.begin(), kOurs.end(), made_for(name)) != kOurs.end();
  });
}

void copy(const OpenDirectory& from, const std::string& name, const OpenDirectory& to) {
  constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;
  const InputFile file(from / name);
  NewFile copied(to / name);
  std::vector<std::byte> piece;
  for (std::uint64_t at = 0; at < file.size(); at += piece.size()) {
    piece.resize(std::min(kPiece, file.size() - at));
    file.read(at, piece);
    copied.write(piece);
  }
  copied.keep();
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
  const std::string base = "runs/" + job_name + "-" + utc_now("%Y%m%dT%H%M%SZ");
  fs::path path = base;
  for (int i = 2; fs::exists(path); i++) path = base + "-" + std::to_string(i);
  return path;
}

bool has_results(const OpenDirectory& run) {
  if (run.has(kWeightsFile) || !checkpoints_in(run).empty()) return true;
  return run.kind(kMetrics) == Kind::file && InputFile(run / kMetrics).size() > 0;
}

void drop_aside(const OpenDirectory& run, const std::vector<std::string>& ended) {
  if (!ended.empty()) {
    const OpenDirectory checkpoints = run.made(kCheckpoints), aside = run.made(kAside).made(kCheckpoints);
    for (const std::string& name : ended)
      if (is_own_checkpoint(checkpoints / name)) checkpoints.try_rename(name, aside / name);
  }
  run.remove_all(kDropped);
  run.try_rename(kAside, run / kDropped);  // at once: remains that a kill leaves are not taken for a run
  run.remove_all(kDropped);
}

RanksHold::RanksHold(const OpenDirectory& run) : run_(run), lock_(open_lock(run, kRanksLock)) {
  const fs::path file = (run / kRanksLock).path();
  if (lock_ < 0) throw directory_error(file, errno);
  if (flock(lock_, LOCK_EX | LOCK_NB) == 0) return;
  const int why = errno;
  ::close(lock_);
  if (why != EWOULDBLOCK) throw directory_error(file, why);
  throw UserError(run.path().string() +
                  ": ranks of a run whose launcher died still write there; wait a few seconds until they have exited");
}

RanksHold::~RanksHold() {
  run_.remove(kRanksLock);
  ::close(lock_);
}

RunDirectory::RunDirectory(fs::path path, IfRun if_run) : path_(std::move(path)) {
  try {
    make();
    files_ = OpenDirectory(path_);
    require_ours();
    lock();
    if (!files_.has(kMark)) write_text(files_ / kMark, "a run of motley\n");
    restore();  // left by a process that was killed before its first step
    remove_unfinished(files_);
    if (!holds_a_run(files_)) return;
    if (if_run == IfRun::refuse && has_results(files_))
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

// Before anything in it is touched.
void RunDirectory::require_ours() const {
  for (const char* name : {kLock, kRanksLock, kMark}) require_plain(files_, name, Kind::file);
  for (const char* name : {kLock, kRanksLock}) require_one_name(files_, name);
  for (const char* name : {kRecords, kAside, kDropped}) require_plain(files_, name, Kind::directory);
  require_plain_run(files_);
  if (const auto aside = files_.find(kAside)) require_plain_run(*aside);
  if (!files_.has(kMark) && !is_empty(files_) && !is_unmarked_run(files_))
    throw UserError(path_.string() + " is not empty and is not a run of motley; give another --run-dir, or an empty directory");
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
  out.files_ = OpenDirectory(out.path_);
  return out;
}

RunDirectory::RunDirectory(RunDirectory&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      files_(std::exchange(other.files_, {})),
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
  const fs::path file = (files_ / kLock).path();
  do {
    if (lock_ >= 0) ::close(lock_);
    lock_ = open_lock(files_, kLock);
    if (lock_ < 0) throw directory_error(file, errno);
    if (flock(lock_, LOCK_EX | LOCK_NB) == 0) continue;
    const int why = errno;
    const std::string holder = pid_in(lock_);
    ::close(std::exchange(lock_, -1));
    if (why != EWOULDBLOCK) throw directory_error(file, why);
    throw UserError(path_.string() + " is used by another run" + holder + "; wait until it ends, or give another --run-dir");
  } while (!is_still(lock_, files_, kLock));
  try {
    const RanksHold none(files_);
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
    const RanksHold none(files_);  // also removes what a killed rank has left
    remove_unfinished(files_);
    files_.remove_all(kRecords);  // of a launcher that found them moved
  } catch (const Error&) {        // ranks still write: the files are theirs
  }
  files_.remove(kLock);
  ::close(std::exchange(lock_, -1));
}

void RunDirectory::go_on() {
  if (files_.has(kAside)) return;
  const OpenDirectory aside = files_.made(kAside);
  for (const char* name : kFilesOfARun) {
    if (!files_.has(name)) continue;
    if (std::find(kEndOfARun.begin(), kEndOfARun.end(), std::string_view(name)) != kEndOfARun.end()) {
      files_.rename(name, aside / name);
    } else if (std::string_view(name) == kMetrics) {  // which grows in place: a snapshot made of hard links keeps what it has
      files_.rename(name, aside / name);
      copy(aside, name, files_);
    } else {
      copy(files_, name, aside);
    }
  }
  resumed_ = true;
}

void RunDirectory::put_aside() {
  const OpenDirectory aside = files_.made(kAside), kept = aside.made(kCheckpoints);
  for (const char* name : kFilesOfARun)
    if (files_.has(name)) files_.rename(name, aside / name);
  const auto checkpoints = files_.find(kCheckpoints);
  for (const std::string& name : checkpoints_in(files_))
    if (is_own_checkpoint(*checkpoints / name)) checkpoints->rename(name, kept / name);
  files_.remove(kCheckpoints);
}

// Moves back what was put aside, unless a step has dropped it.
void RunDirectory::restore() {
  files_.remove_all(kDropped);
  const auto aside = files_.find(kAside);
  if (!aside) return;
  remove_unfinished(*aside);
  if (const auto kept = aside->find(kCheckpoints))
    for (const std::string& name : checkpoints_in(*aside)) kept->try_rename(name, files_.made(kCheckpoints) / name);
  for (const char* name : kFilesOfARun) aside->try_rename(name, files_ / name);
  aside->remove(kCheckpoints);
  files_.remove(kAside);  // except what could not be moved
}

void RunDirectory::forget() {
  if (!resumed_ && !has_results(files_)) remove_run(files_);
  leave();
}

// Also removes the directories that were created, if they are empty.
void RunDirectory::leave() {
  std::error_code ignored;
  const bool here = !files_ || files_.is_here();
  if (lock_ >= 0) {
    restore();
    unlock();
    if (is_empty(files_)) files_.remove(kMark);
  }
  for (auto made = made_.rbegin(); here && made != made_.rend(); ++made) fs::remove(*made, ignored);
}

}  // namespace motley
