// SPDX-License-Identifier: Apache-2.0
#include "app/launch.h"

#include <fcntl.h>
#include <motley/error.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "app/launch_processes.h"
#include "app/stop_signals.h"
#include "base/host.h"
#include "run/start.h"

namespace motley {

namespace {

using namespace std::chrono_literals;

constexpr int kHung = static_cast<int>(Exit::hung), kStopped = static_cast<int>(Exit::stopped);

constexpr std::size_t kMostWaiting = std::size_t{1} << 20;  // bytes that a stream's reader has not read; no pipe holds more

constexpr auto kStopPatience = 20s;    // for ranks that were asked to stop
constexpr auto kForkPatience = 3s;     // for the other ranks' processes, once one exists
constexpr auto kDeathNotice = 20ms;    // for mpiexec to end by itself once a rank died
constexpr auto kHungNotice = 500ms;    // for the ranks to leave by themselves
constexpr auto kGaveUpNotice = 100ms;  // for the rank's last words to arrive
constexpr auto kErrorNotice = 2s;      // for all ranks to end as they agreed
constexpr auto kLeavePatience = 5s;    // for mpiexec to end with 0 after all ranks have ended

volatile sig_atomic_t g_signals = 0;
std::array<struct sigaction, kStopSignals.size() + 1> g_before{};

void count_signal(int) {
  g_signals = g_signals + 1;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

constexpr std::uint64_t kMpiexec = ~std::uint64_t{0};  // mpiexec, among the ranks' numbers

void await_end(const Handle& ends, const Handle& process, std::uint64_t whose) {
  epoll_event event{.events = EPOLLIN | EPOLLONESHOT, .data = {.u64 = whose}};
  if (epoll_ctl(ends.get(), EPOLL_CTL_ADD, process.get(), &event) != 0) throw io_error("epoll_ctl");
}

// Reads what a stream has now, as much as a pipe holds; pass(text) returns what is shown of it.
template <class Pass>
void forward(Handle& from, Outlet& to, Pass&& pass) {
  std::array<char, 65536> block{};
  for (std::size_t taken = 0; taken < kMostWaiting;) {
    pollfd file{from.get(), POLLIN, 0};
    if (!from || ::poll(&file, 1, 0) <= 0) break;
    const ssize_t n = ::read(from.get(), block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      from.reset();
      break;
    }
    to.add(pass(std::string_view(block.data(), static_cast<std::size_t>(n))));
    taken += static_cast<std::size_t>(n);
  }
  to.flush();
}

// Runs in the child, between fork and exec: nothing may allocate.
[[noreturn]] void become_mpiexec(const char* file, char* const* arguments, char* const* environment, std::array<int, 2> streams,
                                 pid_t parent) {
  setpgid(0, 0);  // Ctrl-C reaches only the launcher
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(kHung);
  signal(SIGPIPE, SIG_DFL);
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(streams[0], STDOUT_FILENO) < 0 || dup2(streams[1], STDERR_FILENO) < 0)
    _exit(static_cast<int>(Exit::io));
  execve(file, arguments, environment);
  _exit(static_cast<int>(Exit::device));
}

}  // namespace

Error io_error(const std::string& what) {
  return {Exit::io, what + ": " + std::strerror(errno)};
}

std::string records_variable(const std::filesystem::path& records) {
  return "MOTLEY_RUN_RECORDS=" + records.string();
}

Handle open_process(pid_t pid) {
  return Handle(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

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
  // Signals that the caller had blocked arrive now; and mpiexec inherits this mask.
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
      variable_(records_variable(records_)),
      watch_(records_, static_cast<int>(options.devices.size()), Limits::from_environment()),
      to_stdout_(STDOUT_FILENO),
      to_stderr_(STDERR_FILENO) {
  for (const Device& device : options.devices) ranks_.push_back({.device = device.name, .here = on_one_host(options.devices)});
  try {
    start(options);
  } catch (...) {  // no destructor will run
    if (mpiexec_ > 0) end_at_once();
    throw;
  }
}

Launch::~Launch() {
  if (!ended_) end_at_once();
  to_stderr_.flush();
}

void Launch::start(const LaunchOptions& options) {
  RankCommand command{.records = records_, .allowed_cores = options.units.empty() ? allowed_cores() : options.units};
  const std::filesystem::path program = options.program.empty() ? std::filesystem::read_symlink("/proc/self/exe") : options.program;
  command.program.push_back(program.string());
  command.program.insert(command.program.end(), options.arguments.begin(), options.arguments.end());
  std::vector<std::string> arguments = mpiexec_arguments(find_mpiexec(), options.devices, command);
  std::vector<std::string> environment = clean_environment(options.devices);
  environment.push_back(variable_);  // marks mpiexec and its helpers as ours too
  const std::vector<char*> argv = pointers(arguments), envp = pointers(environment);
  std::array<int, 2> out{}, err{};
  if (pipe2(out.data(), O_CLOEXEC) != 0) throw io_error("pipe");
  output_ = Handle(out[0]);
  const Handle to_output(out[1]);
  if (pipe2(err.data(), O_CLOEXEC) != 0) throw io_error("pipe");
  errors_ = Handle(err[0]);
  const Handle to_errors(err[1]);
  ends_ = Handle(epoll_create1(EPOLL_CLOEXEC));
  if (!ends_) throw io_error("epoll_create1");
  const pid_t parent = getpid();
  mpiexec_ = fork();
  if (mpiexec_ < 0) throw io_error("fork");
  if (mpiexec_ == 0) become_mpiexec(argv[0], argv.data(), envp.data(), {to_output.get(), to_errors.get()}, parent);
  setpgid(mpiexec_, mpiexec_);
  mpiexec_process_ = open_process(mpiexec_);
  if (mpiexec_process_) await_end(ends_, mpiexec_process_, kMpiexec);
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
      if (!alone_ && mpiexec_process_ && watch_.all_ready()) {  // all of mpiexec's helpers have connected to it
        drop_new_connections(mpiexec_process_.get(), mpiexec_);
        alone_ = true;
      }
      heed_mpiexec();
    }
    heed_signals();
    heed_failures();
  }
  if (!killed_) see_ends();
  end_at_once();
  read_streams();
  to_stdout_.add(output_filter_.pass(order_.rest()));
  to_stdout_.add(output_filter_.rest());
  to_stderr_.add(errors_filter_.rest());
  for (Outlet* to : {&to_stdout_, &to_stderr_}) to->finish([] { return signals_so_far() > 0; });
  return outcome();
}

void Launch::poll_once() {
  looks_++;
  const auto source = [&](const Handle& from, const Outlet& to) { return pollfd{reads(to) ? from.get() : -1, POLLIN, 0}; };
  const auto target = [](const Outlet& to) { return pollfd{to.waiting() > 0 ? to.stream() : -1, POLLOUT, 0}; };
  std::array<pollfd, 5> files{{{ends_.get(), POLLIN, 0},
                               source(output_, to_stdout_),
                               source(errors_, to_stderr_),
                               target(to_stdout_),
                               target(to_stderr_)}};  // negative descriptors are skipped
  // As long as processes have not been found, the search for them must not come after their death.
  const int patience = all_known() ? 50 : 5;
  if (::poll(files.data(), files.size(), patience) < 0) return;  // interrupted by a signal
  read_streams();
  see_ends();
}

// The kernel queues events as they come: the first one is of the process that ended first, however late we read it.
void Launch::see_ends() {
  std::array<epoll_event, 64> events{};
  for (;;) {
    const int n = epoll_wait(ends_.get(), events.data(), static_cast<int>(events.size()), 0);
    if (n <= 0) return;
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); i++) {
      if (events[i].data.u64 == kMpiexec) {
        mpiexec_first_ = !killed_ && std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.process && !r.gone; });
        continue;
      }
      ranks_[events[i].data.u64].gone = true;
      rank_is_gone(events[i].data.u64, Order::known);
    }
  }
}

// A reader that does not keep up slows the ranks down, except when they are to end.
bool Launch::reads(const Outlet& to) const {
  return to.waiting() < kMostWaiting || asked_ || failed_ || ended_;
}

void Launch::read_streams() {
  const auto errors = [&](std::string_view text) { return errors_filter_.pass(order_.errors(text)); };
  const auto output = [&](std::string_view text) { return output_filter_.pass(order_.output(text)); };
  reads(to_stderr_) ? forward(errors_, to_stderr_, errors) : to_stderr_.flush();
  to_stdout_.add(output(""));
  reads(to_stdout_) ? forward(output_, to_stdout_, output) : to_stdout_.flush();
}

std::optional<Record> Launch::record(std::size_t rank) const {
  return RecordReader(record_path(records_, static_cast<int>(rank))).read();
}

bool Launch::all_known() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.known; });
}

// A rank's process handle is opened as soon as the process exists: the first process that ends without a final code died first. A
// rank of another host is known only by its record.
void Launch::find_processes() {
  if (all_known()) return;
  const std::map<int, pid_t> started = ranks_below(mpiexec_);
  for (std::size_t r = 0; r < ranks_.size(); r++) {
    if (ranks_[r].known) continue;
    const auto now = record(r);
    const auto its = started.find(static_cast<int>(r));
    if (!now && its == started.end()) continue;
    ranks_[r].known = true;
    if (its != started.end()) seen_ = Clock::now();
    if (now && now->host != host_name()) continue;
    ranks_[r].process = open_process(now ? now->pid : its->second);
    if (ranks_[r].process)
      await_end(ends_, ranks_[r].process, r);
    else if (errno == ESRCH)
      rank_is_gone(r, Order::unknown);
  }
  miss_ranks();
}

std::vector<std::size_t> Launch::unseen() const {
  std::vector<std::size_t> out;
  for (std::size_t r = 0; r < ranks_.size(); r++)
    if (!ranks_[r].known && ranks_[r].here) out.push_back(r);
  return out;
}

// mpiexec forks the ranks of a host within milliseconds of each other, and outlives one that exits.
void Launch::miss_ranks() {
  if (killed_ || !died_.empty() || !seen_ || Clock::now() - *seen_ < kForkPatience) return;
  died_ = unseen();
  if (!died_.empty()) failed_ = failed_.value_or(Clock::now());
}

void Launch::rank_is_gone(std::size_t rank, Order order) {
  if (killed_) return;
  // Deaths after the first one are not reported; if the order is not known, all that are found at the same check are named.
  if (!died_.empty() && (order == Order::known || looks_ != died_look_)) return;
  const auto now = record(rank);
  if (now && now->code == 0) return;
  failed_ = failed_.value_or(Clock::now());
  if (now && now->gave_up != 0) gave_up_ = true;
  if (now && now->code > 0) return;
  for (std::size_t r = 0; r < ranks_.size(); r++)
    if (const auto other = record(r); other && other->code > 0) return;  // it was ended by that rank's failure
  died_.push_back(rank);
  died_look_ = looks_;
}

bool Launch::saves() const {
  for (std::size_t r = 0; r < ranks_.size(); r++)
    if (const auto its = record(r); its && std::string_view(its->phase).starts_with("saving")) return true;
  return false;
}

void Launch::heed_signals() {
  const int signals = signals_so_far();
  if (signals == 0 || ended_) return;
  if (!asked_) {
    asked_ = Clock::now();
    static_cast<void>(watch_.beat());
    early_ = !watch_.all_ready();
  }
  const auto since = Clock::now() - *asked_;
  if (signals >= 2 || since > (saves() ? kSavePatience : kStopPatience)) {
    end_at_once();
  } else if (heeded_ == 0) {
    static_cast<void>(watch_.beat());
    if (watch_.all_ready()) {
      heeded_ = 1;
      // Never SIGINT: mpiexec would then return 0.
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

void Launch::heed_mpiexec() {
  const auto is_over = [](const Rank& r) { return r.known && (!r.process || r.gone); };
  bool over = std::all_of(ranks_.begin(), ranks_.end(), is_over) && to_stdout_.waiting() == 0 && to_stderr_.waiting() == 0;
  for (std::size_t r = 0; r < ranks_.size() && over; r++) {
    const auto its = record(r);
    over = its && its->code == 0;
  }
  if (!over) return over_.reset();
  over_ = over_.value_or(Clock::now());
  if (Clock::now() - *over_ < kLeavePatience) return;
  to_stderr_.add("motley: mpiexec was still running after all ranks had exited, and was killed\n");
  end_at_once();
}

void Launch::end_at_once() {
  killed_ = true;
  killed_mpiexec_ = killed_mpiexec_ || !ended_;
  const bool all = end_processes_with(variable_);
  // On other hosts, and if /proc gives no information: mpiexec's helpers end their ranks when mpiexec is gone.
  if (!ended_ && kill(mpiexec_, SIGKILL) == 0 && waitpid(mpiexec_, &status_, 0) == mpiexec_) ended_ = true;
  static_cast<void>(watch_.beat());  // reads the last records
  if (!watch_.all_ready()) remove_orphan_segments(began_);
  if (!all) to_stderr_.add("motley: some ranks could not be terminated\n");
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

// If some ranks died, returns those that had died before they were seen, since what became of the others came later. mpiexec starts
// the ranks of a host in order, so a rank that was not seen had died if a later one was seen; a rank after all that were seen may
// be the first dead.
std::vector<std::size_t> Launch::first_dead() const {
  if (died_.empty()) return {};
  std::size_t last = 0;
  for (std::size_t r = 0; r < ranks_.size(); r++)
    if (ranks_[r].known) last = r;
  std::vector<std::size_t> before, any = died_;
  for (const std::size_t r : unseen()) {
    if (r < last) before.push_back(r);
    if (std::find(died_.begin(), died_.end(), r) == died_.end()) any.push_back(r);
  }
  return before.empty() ? any : before;
}

std::string Launch::obituary() const {
  std::string names;
  for (const std::size_t r : first_dead()) {
    const auto now = record(r);
    const std::string name = now ? who(*now) + " died in phase '" + now->phase + "'"
                                 : "rank " + std::to_string(r) + " (\"" + ranks_[r].device + "\") died during startup";
    names += (names.empty() ? "" : ", ") + name;
  }
  return names;
}

Outcome Launch::outcome() const {
  int bare = -1, started = 0;
  std::size_t agreed = 0;
  Outcome end;
  for (std::size_t r = 0; r < ranks_.size(); r++) {
    const auto now = record(r);
    if (now) started++;
    if (now && now->agreed >= 0) agreed++;
    if (now && now->agreed > end.code) end = {now->agreed, static_cast<int>(r), now->reason, true};
    if (bare < 0 && (!now || now->code == -1)) bare = static_cast<int>(r);
  }
  const Outcome worst = worst_record();
  // Also if a rank died or hung in the meantime.
  if (signals_so_far() > 0 &&
      (worst.code == 0 ? bare >= 0 || hung_ || to_stdout_.dropped() : worst.code == kStopped || worst.code == kHung)) {
    const std::string why = worst.code == kHung ? worst.reason : hung_ ? hung_->text : "";
    std::string reason = "stopped on request";
    if (!why.empty())
      reason += "; " + why;
    else if (!worst.reason.empty())
      reason = worst.reason;
    return {kStopped, -1, reason, worst.said && worst.code == kStopped && !worst.reason.empty(), early_};
  }
  // The run was over; what happens to a rank in MPI_Finalize changes nothing of it.
  if (agreed == ranks_.size() && (end.code != 0 || to_stdout_.error() == 0)) return end;
  if (hung_ && (worst.code == 0 || worst.code == kHung)) return {kHung, hung_->rank, hung_->text, false};
  // SIGPIPE: mpiexec failed because of a rank's death.
  if (!killed_mpiexec_ && WIFSIGNALED(status_) && WTERMSIG(status_) != SIGPIPE)
    return {kHung, -1, "mpiexec was ended by signal " + std::to_string(WTERMSIG(status_)), false};
  if (std::error_code ignored; !std::filesystem::exists(records_, ignored))
    return {static_cast<int>(Exit::io), -1,
            records_.parent_path().string() + " was removed or renamed while the ranks ran: how they ended is not known", false};
  if (mpiexec_first_ && worst.code == 0 && started > 0)
    return {kHung, -1,
            "mpiexec ended while the ranks ran, and its helpers ended the ranks; it ends when anybody connects to its port", false};
  if (const auto dead = first_dead(); !dead.empty())
    return {kHung, dead.size() == 1 ? static_cast<int>(dead[0]) : -1, obituary(), false};
  if (worst.code > 0) return worst;
  if (started == 0 && !output_filter_.signal().empty())
    return {kHung, -1, "a rank died during startup, before it could be identified: " + output_filter_.signal(), false};
  if (started == 0) {
    const std::string how =
        WIFEXITED(status_) ? "status " + std::to_string(WEXITSTATUS(status_)) : "signal " + std::to_string(WTERMSIG(status_));
    return {static_cast<int>(Exit::device), -1,
            "mpiexec ended with " + how + " before any rank had started" +
                (errors_filter_.noise().empty() ? "" : ":\n" + errors_filter_.noise()),
            false};
  }
  if (bare >= 0) {
    const auto now = record(static_cast<std::size_t>(bare));
    const std::string rank = now ? who(*now) + " exited without reporting, in phase '" + now->phase + "'"
                                 : "rank " + std::to_string(bare) + " never started";
    return {kHung, bare, rank, false};
  }
  if (to_stdout_.error() != 0) return {static_cast<int>(Exit::io), -1, "could not write to stdout", false};
  return {};
}

}  // namespace motley
