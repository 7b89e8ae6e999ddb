// SPDX-License-Identifier: Apache-2.0
#include "app/launch.h"

#include <fcntl.h>
#include <motley/error.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "app/launch_processes.h"
#include "run/start.h"

namespace motley {

namespace {

using namespace std::chrono_literals;

constexpr int kHung = static_cast<int>(Exit::hung), kStopped = static_cast<int>(Exit::stopped);
constexpr std::array kStopSignals{SIGINT, SIGTERM, SIGHUP};

// A SIGTERM before MPI_Init is through on every rank can hang mpiexec for good: it is kept so long, then all is killed.
constexpr auto kReadyPatience = 5s;
constexpr auto kStopPatience = 20s;    // for ranks that were asked to stop
constexpr auto kDeathNotice = 20ms;    // for mpiexec to end by itself once a rank died
constexpr auto kHungNotice = 500ms;    // for the ranks to leave by themselves
constexpr auto kGaveUpNotice = 100ms;  // for its last words to come through
constexpr auto kErrorNotice = 2s;      // for all to end as they agreed

volatile sig_atomic_t g_signals = 0;
std::array<struct sigaction, kStopSignals.size() + 1> g_before{};

void count_signal(int) {
  g_signals = g_signals + 1;
}

Error io_error(const std::string& what) {
  return {Exit::io, what + ": " + std::strerror(errno)};
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

Handle open_process(pid_t pid) {
  return Handle(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

bool write_all(int fd, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = ::write(fd, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    at += static_cast<std::size_t>(n);
  }
  return true;
}

std::string this_host() {
  std::array<char, 64> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

// In the child, between fork and exec: nothing that allocates.
[[noreturn]] void become_mpiexec(const char* file, char* const* arguments, char* const* environment, int output, pid_t parent) {
  setpgid(0, 0);  // Ctrl-C reaches the launcher alone
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(kHung);
  signal(SIGPIPE, SIG_DFL);
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0) _exit(static_cast<int>(Exit::io));
  execve(file, arguments, environment);
  _exit(static_cast<int>(Exit::device));
}

}  // namespace

void Handle::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

int signals_so_far() {
  return g_signals;
}

SignalGuard::SignalGuard() {
  g_signals = 0;
  struct sigaction count {};
  count.sa_handler = count_signal;  // no SA_RESTART: poll() returns at once
  for (std::size_t i = 0; i < kStopSignals.size(); i++) {
    sigaction(kStopSignals[i], nullptr, &g_before[i]);
    if (g_before[i].sa_handler != SIG_IGN) sigaction(kStopSignals[i], &count, nullptr);
  }
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &g_before.back());
  // Those that the caller held back arrive now; and mpiexec inherits this mask.
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kStopSignals) sigaddset(&set, signal);
  pthread_sigmask(SIG_UNBLOCK, &set, &mask_before_);
}

SignalGuard::~SignalGuard() {
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  for (std::size_t i = 0; i < kStopSignals.size(); i++) sigaction(kStopSignals[i], &g_before[i], nullptr);
  sigaction(SIGPIPE, &g_before.back(), nullptr);
}

Launch::Launch(const LaunchOptions& options, std::filesystem::path records)
    : records_(std::move(records)),
      variable_("MOTLEY_RUN_RECORDS=" + records_.string()),
      watch_(records_, static_cast<int>(options.devices.size()), Limits::from_environment()),
      ranks_(options.devices.size()) {
  start(options);
}

Launch::~Launch() {
  if (!ended_) end_at_once();
}

void Launch::start(const LaunchOptions& options) {
  RankCommand command{.records = records_, .allowed_cores = allowed_cores()};
  const std::filesystem::path program = options.program.empty() ? std::filesystem::read_symlink("/proc/self/exe") : options.program;
  command.program.push_back(program.string());
  command.program.insert(command.program.end(), options.arguments.begin(), options.arguments.end());
  std::vector<std::string> arguments = mpiexec_arguments(find_mpiexec(), options.devices, command);
  std::vector<std::string> environment = clean_environment();
  environment.push_back(variable_);  // mpiexec and its helpers are ours too
  const std::vector<char*> argv = pointers(arguments), envp = pointers(environment);
  std::array<int, 2> pipe{};
  if (pipe2(pipe.data(), O_CLOEXEC) != 0) throw io_error("pipe");
  output_ = Handle(pipe[0]);
  const Handle input(pipe[1]);
  const pid_t parent = getpid();
  mpiexec_ = fork();
  if (mpiexec_ < 0) throw io_error("fork");
  if (mpiexec_ == 0) become_mpiexec(argv[0], argv.data(), envp.data(), input.get(), parent);
  setpgid(mpiexec_, mpiexec_);
  mpiexec_process_ = open_process(mpiexec_);
}

Outcome Launch::wait() {
  while (!mpiexec_ended()) {
    poll_once();
    find_processes();
    if (Clock::now() >= next_beat_) {
      next_beat_ = Clock::now() + std::chrono::milliseconds(static_cast<int>(1000 * kBeatSeconds));
      if (auto hung = watch_.beat(); hung && !hung_ && !killed_) {
        hung_ = hung;
        failed_ = failed_.value_or(Clock::now());
      }
    }
    heed_signals();
    heed_failures();
  }
  static_cast<void>(watch_.beat());  // the last records
  end_at_once();
  read_output();
  if (!write_all(STDOUT_FILENO, filter_.rest())) output_failed_ = true;
  return outcome();
}

void Launch::poll_once() {
  looks_++;
  std::vector<pollfd> files{{output_.get(), POLLIN, 0}, {mpiexec_process_.get(), POLLIN, 0}};  // those below 0 are skipped
  std::vector<std::size_t> whose;
  for (std::size_t r = 0; r < ranks_.size(); r++)
    if (ranks_[r].process && !ranks_[r].gone) {
      files.push_back({ranks_[r].process.get(), POLLIN, 0});
      whose.push_back(r);
    }
  // While processes are still to be found, the look for them must not come after their death.
  const int patience = std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.known; }) ? 50 : 5;
  if (::poll(files.data(), static_cast<nfds_t>(files.size()), patience) < 0) return;  // a signal
  if (files[0].revents != 0) read_output();
  for (std::size_t i = 0; i < whose.size(); i++)
    if (files[i + 2].revents != 0) rank_is_gone(whose[i]);
}

// What there is now.
void Launch::read_output() {
  std::array<char, 65536> block{};
  for (;;) {
    pollfd file{output_.get(), POLLIN, 0};
    if (!output_ || ::poll(&file, 1, 0) <= 0) return;
    const ssize_t n = ::read(output_.get(), block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      output_.reset();
      return;
    }
    if (!write_all(STDOUT_FILENO, filter_.pass({block.data(), static_cast<std::size_t>(n)}))) output_failed_ = true;
  }
}

std::optional<Record> Launch::record(std::size_t rank) const {
  return RecordReader(record_path(records_, static_cast<int>(rank))).read();
}

// As soon as a rank has written its record its process is held on to: the first that ends without a final code died first.
void Launch::find_processes() {
  for (std::size_t r = 0; r < ranks_.size(); r++) {
    if (ranks_[r].known) continue;
    const auto now = record(r);
    if (!now) continue;
    ranks_[r].known = true;
    if (now->host != this_host()) continue;
    ranks_[r].process = open_process(now->pid);
    if (!ranks_[r].process && errno == ESRCH) rank_is_gone(r);
  }
}

void Launch::rank_is_gone(std::size_t rank) {
  ranks_[rank].gone = true;
  if (killed_) return;
  const auto now = record(rank);
  if (now && now->code == 0) return;
  if (!died_.empty() && looks_ != died_look_) return;  // the first one's death has ended it
  died_look_ = looks_;
  failed_ = failed_.value_or(Clock::now());
  if (now && now->gave_up != 0) gave_up_ = true;
  if (now && now->code > 0) return;
  for (std::size_t r = 0; r < ranks_.size(); r++)
    if (const auto other = record(r); other && other->code > 0) return;  // it was ended by that one's failure
  died_.push_back(rank);
}

void Launch::heed_signals() {
  const int signals = signals_so_far();
  if (signals == 0 || ended_) return;
  asked_ = asked_.value_or(Clock::now());
  const auto since = Clock::now() - *asked_;
  if (signals >= 2 || since > kStopPatience) {
    end_at_once();
  } else if (heeded_ == 0) {
    static_cast<void>(watch_.beat());
    if (watch_.all_ready()) {
      heeded_ = 1;
      // Never SIGINT: mpiexec then returns 0.
      if (kill(mpiexec_, SIGTERM) != 0) return;  // it has just ended
    } else if (since > kReadyPatience) {
      end_at_once();
    }
  }
}

void Launch::heed_failures() {
  if (!failed_ || ended_) return;
  Clock::duration patience = kErrorNotice;
  if (hung_) patience = kHungNotice;
  if (gave_up_) patience = kGaveUpNotice;
  if (!died_.empty()) patience = kDeathNotice;
  if (Clock::now() - *failed_ > patience) end_at_once();
}

void Launch::end_at_once() {
  killed_ = true;
  killed_mpiexec_ = killed_mpiexec_ || !ended_;
  const bool all = end_processes_with(variable_);
  // On other hosts, and where /proc says nothing: mpiexec's helpers end their ranks when it is gone.
  if (!ended_ && kill(mpiexec_, SIGKILL) == 0 && waitpid(mpiexec_, &status_, 0) == mpiexec_) ended_ = true;
  if (!all) write_all(STDERR_FILENO, "motley: some ranks could not be ended\n");
}

bool Launch::mpiexec_ended() {
  if (!ended_ && waitpid(mpiexec_, &status_, WNOHANG) == mpiexec_) ended_ = true;
  return ended_;
}

Outcome Launch::worst_record() const {
  Outcome worst;
  for (std::size_t r = 0; r < ranks_.size(); r++)
    if (const auto now = record(r); now && now->code > worst.code)
      worst = {now->code, static_cast<int>(r), now->reason, now->code != kHung};
  return worst;
}

std::string Launch::obituary() const {
  std::string names;
  for (const std::size_t r : died_) {
    const auto now = record(r);
    const std::string name = now ? who(*now) + " died in phase '" + now->phase + "'" : "rank " + std::to_string(r) + " died";
    names += (names.empty() ? "" : ", ") + name;
  }
  return names;
}

Outcome Launch::outcome() const {
  int bare = -1, started = 0;
  for (std::size_t r = 0; r < ranks_.size(); r++) {
    const auto now = record(r);
    if (now) started++;
    if (bare < 0 && (!now || now->code == -1)) bare = static_cast<int>(r);
  }
  const Outcome worst = worst_record();
  if (asked_ && worst.code <= kStopped && (worst.code > 0 || bare >= 0) && (worst.code == 0 || worst.code == kStopped))
    return {kStopped, -1, worst.code == 0 ? "stopped on request" : worst.reason, worst.said};
  if (hung_ && (worst.code == 0 || worst.code == kHung)) return {kHung, hung_->rank, hung_->text, false};
  if (!died_.empty()) return {kHung, died_.size() == 1 ? static_cast<int>(died_[0]) : -1, obituary(), false};
  if (worst.code > 0) return worst;
  if (!killed_mpiexec_ && WIFSIGNALED(status_))
    return {kHung, -1, "mpiexec was ended by signal " + std::to_string(WTERMSIG(status_)), false};
  if (started == 0) {
    const std::string how =
        WIFEXITED(status_) ? "status " + std::to_string(WEXITSTATUS(status_)) : "signal " + std::to_string(WTERMSIG(status_));
    return {static_cast<int>(Exit::device), -1, "mpiexec ended with " + how + " before any rank had started", false};
  }
  if (bare >= 0) {
    const auto now = record(static_cast<std::size_t>(bare));
    const std::string rank =
        now ? who(*now) + " ended without a word in phase '" + now->phase + "'" : "rank " + std::to_string(bare) + " never started";
    return {kHung, bare, rank, false};
  }
  if (output_failed_) return {static_cast<int>(Exit::io), -1, "could not write to stdout", false};
  return {};
}

}  // namespace motley
