// SPDX-License-Identifier: Apache-2.0
#include "run/heartbeat.h"

#include <motley/error.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstring>
#include <string_view>

#include "mesh/mpi_session.h"

namespace motley {

namespace {

// Writes to stderr until its reader has stopped: this thread must not wait, else its rank would be taken for a hung one. A pipe
// that is ready has space for PIPE_BUF bytes.
void say_without_waiting(const std::string& text) {
  const std::string line = "motley: " + text + "\n";
  pollfd file{STDERR_FILENO, POLLOUT, 0};
  for (std::string_view rest = line; !rest.empty() && ::poll(&file, 1, 0) > 0;) {
    const ssize_t n = ::write(STDERR_FILENO, rest.data(), std::min<std::size_t>(rest.size(), PIPE_BUF));
    if (n < 0) return;
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
}

void wake(int fd) {
  const std::uint64_t one = 1;
  if (::write(fd, &one, sizeof one) < 0) return;  // full: the thread is awake anyway
}

}  // namespace

Heartbeat::Heartbeat(RecordWriter& record, Limits limits, Voice voice, const std::filesystem::path& records)
    : record_(record), limits_(limits), voice_(voice), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_ < 0) throw InternalError(std::string("eventfd: ") + std::strerror(errno));
  if (!records.empty()) launcher_.emplace(records);
  // Signals are handled by the main thread.
  sigset_t all, before;
  sigfillset(&all);
  if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) throw InternalError("pthread_sigmask failed");
  thread_ = std::thread([this] { run(); });
  if (pthread_sigmask(SIG_SETMASK, &before, nullptr) != 0) throw InternalError("pthread_sigmask failed");
}

Heartbeat::~Heartbeat() {
  over_ = true;
  wake(wake_);
  thread_.join();
  if (others_) others_->last_word();
  ::close(wake_);
}

void Heartbeat::watch(std::unique_ptr<HostWatch> others) {
  const std::lock_guard lock(mutex_);
  others_ = std::move(others);
}

void Heartbeat::leave(int code) {
  leaves_ = code;
  wake(wake_);
}

void Heartbeat::run() {
  using Clock = std::chrono::steady_clock;
  auto next = Clock::now();
  while (!over_) {
    next += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(kBeatSeconds));
    next = std::max(next, Clock::now());  // missed beats are not repeated
    for (double left = 0; !over_ && (left = std::chrono::duration<double>(next - Clock::now()).count()) > 0;) pause(left);
    if (!over_) act();
  }
}

// Waits until then, or until something has arrived.
void Heartbeat::pause(double seconds) {
  std::vector<pollfd> files{{wake_, POLLIN, 0}};
  {
    const std::lock_guard lock(mutex_);
    if (others_) others_->add_files(files);
  }
  if (::poll(files.data(), files.size(), static_cast<int>(1000 * seconds) + 1) <= 0) return;
  if (leaves_ >= 0) end(leaves_, "", -1);
  std::optional<Hung> hung;
  {
    const std::lock_guard lock(mutex_);
    if (others_) hung = others_->event();
  }
  if (!hung) return;
  if (voice_ == Voice::speaks && !hung->known) say_without_waiting(hung->text);
  end(static_cast<int>(Exit::hung), hung->text, hung->rank);
}

// A rank that computes, or waits for a file, neither hears of a stop nor is seen by the others as hung.
void Heartbeat::see_launcher() {
  constexpr int kEvery = 8;  // beats: the file may be another host's
  if (orphan_beats_ > 0)
    orphan_beats_++;
  else if (launcher_ && beats_++ % kEvery == 0 && launcher_->has_ended())
    orphan_beats_ = 1;
  if (orphan_beats_ <= beats_in(limits_.orphan_seconds)) return;
  const Record mine = record_.now();
  const std::string text = who(mine) + " was still in phase '" + mine.phase + "' " +
                           std::to_string(std::lround(limits_.orphan_seconds)) + " s after its launcher had ended, and exits";
  say_without_waiting(text);
  end(static_cast<int>(Exit::hung), text, mine.rank);
}

void Heartbeat::act() {
  record_.beat();
  see_launcher();
  std::optional<Hung> hung;
  std::optional<std::string> slow;
  bool quiet = true;
  {
    const std::lock_guard lock(mutex_);
    if (others_) {
      hung = others_->beat();
      slow = others_->slow();
      quiet = others_->quiet();
    }
  }
  if (slow) say_without_waiting(*slow);
  if (hung) {
    if (voice_ == Voice::speaks && !hung->known) say_without_waiting(hung->text);
    end(static_cast<int>(Exit::hung), hung->text, hung->rank);
  }
  const Record mine = record_.now();
  if (mine.agreed < 0) return;
  // A rank that is stopped in MPI_Finalize would be left alone with mpiexec: the ranks that notice it stay until it is named.
  if (++agreed_beats_ < beats_in(limits_.end_seconds) || !quiet) return;
  say_without_waiting("note: MPI_Finalize of " + who(mine) +
                      " has not returned; the run was over, this rank exits with the agreed exit code " +
                      std::to_string(mine.agreed));
  end(mine.agreed, mine.reason, -1);
}

void Heartbeat::end(int code, const std::string& reason, int blames) {
  record_.ended(code, reason, blames);
  {
    const std::lock_guard lock(mutex_);
    if (others_) others_->last_word();
  }
  if (code == static_cast<int>(Exit::hung) && voice_ == Voice::speaks) MpiSession::end_others(code);
  _exit(code);
}

}  // namespace motley
