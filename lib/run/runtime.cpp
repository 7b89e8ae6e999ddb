// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <motley/runtime.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <vector>

#include "base/files.h"
#include "base/utf8.h"
#include "mesh/control.h"
#include "mesh/mpi_session.h"
#include "run/agreed.h"
#include "run/meet_hosts.h"
#include "run/shared_space.h"
#include "run/start.h"

namespace motley {

namespace {

// How long a failed rank waits for the others to fail too (all of them refuse the same config) before it ends them.
constexpr double kPatienceSeconds = 0.5;
// Time in which printed text reaches mpiexec: MPI_Abort drops what it has not yet read.
constexpr auto kPrinted = std::chrono::milliseconds(200);
// Two signals closer than this are one that was delivered twice (by the terminal and by mpiexec).
constexpr double kOneSignalSeconds = 0.5;

std::atomic<bool> g_stop{false};
std::atomic<double> g_stop_at{0};
std::atomic<int> g_stops_at_once{0};
std::atomic<bool> g_in_body{false};            // whether the body of run() runs, in a rank that only mpiexec watches
std::atomic<Heartbeat*> g_heartbeat{nullptr};  // this process's, while it beats

double clock_seconds() {
  timespec t{};
  return clock_gettime(CLOCK_MONOTONIC, &t) == 0 ? static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec) : 0;
}

// The heartbeat ends this process, so that the other ranks learn that it did not die.
void stop_now() {
  Heartbeat* const heartbeat = g_heartbeat;
  if (heartbeat == nullptr) _exit(static_cast<int>(Exit::stopped));
  heartbeat->leave(static_cast<int>(Exit::stopped));
}

// The first signal requests the body to stop, the second ends the process; if there is nothing to save, the first does.
void on_stop(int) {
  if (g_stops_at_once > 0) return stop_now();
  if (g_stop && clock_seconds() - g_stop_at > kOneSignalSeconds) return stop_now();
  if (!g_stop) g_stop_at = clock_seconds();
  g_stop = true;
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  if (sigaction(signal, &action, nullptr) != 0) throw InternalError(std::string("sigaction: ") + std::strerror(errno));
}

void handle_signals() {
  handle(SIGTERM, on_stop);
  handle(SIGINT, on_stop);
  // write() returns errors instead of killing the process.
  for (int signal : {SIGPIPE, SIGXFSZ}) handle(signal, SIG_IGN);
  // Slurm's notice that the time ends soon (srun --signal=USR1@SECONDS); under hydra (mpiexec) the notice that another rank died.
  const bool by_srun = std::getenv("SLURM_STEP_ID") != nullptr && std::getenv("HYDI_CONTROL_FD") == nullptr;
  handle(SIGUSR1, by_srun ? on_stop : SIG_IGN);
}

struct Ending {
  int code = 0;
  std::string text{};
  int rank = -1;  // on which an error happened that all ranks throw; -1: on this one
};

Ending guarded(const std::function<void()>& body) {
  try {
    body();
    return {};
  } catch (const AgreedError& e) {
    return {static_cast<int>(e.code()), e.what(), e.rank()};
  } catch (const Error& e) {
    return {static_cast<int>(e.code()), e.what()};
  } catch (const std::bad_alloc&) {
    return {static_cast<int>(Exit::device), "out of memory; give this device a smaller part or a smaller batch"};
  } catch (const std::filesystem::filesystem_error& e) {
    return {static_cast<int>(Exit::io), text_of(e)};
  } catch (const std::exception& e) {
    return {static_cast<int>(Exit::internal), std::string("unexpected: ") + e.what()};
  } catch (...) {
    return {static_cast<int>(Exit::internal), "something other than a std::exception was thrown"};
  }
}

void say_lines(const std::string& text) {
  if (std::fputs((lines_of(text) + "\n").c_str(), stderr) < 0) return;  // nothing reads stderr
}

std::string named(const std::string& rank, const std::string& text) {
  return "[" + rank + "] " + text;
}

// exit(0) in the body of run() does not come back from it. (With another code mpiexec ends the others; motley's launcher sees in
// the records that a rank left.)
void left_by_exit(int code, void* /*unused*/) {
  if (!g_in_body || code != 0) return;
  say_lines("motley: exit() was called in the body of run(), where other ranks wait for this one; return from it, or throw");
  std::this_thread::sleep_for(kPrinted);
  MpiSession::abort(static_cast<int>(Exit::internal));
}

// Sends this rank's last record to the other hosts.
void quit_watch(OnWatch& watched) {
  g_heartbeat = nullptr;
  watched.heartbeat.reset();
}

// Leaves, and ends the others: motley's launcher does so when it reads the record, else MPI (if it runs) or mpiexec does.
[[noreturn]] void give_up(OnWatch& watched, const Start& start, const Ending& end) {
  if (watched.record) watched.record->gave_up(end.code, end.text);
  quit_watch(watched);
  std::fflush(nullptr);
  if (!start.launched) {
    std::this_thread::sleep_for(kPrinted);
    MpiSession::abort(end.code);
  }
  _exit(end.code);
}

// The life of a rank among others, once MPI runs: until all ranks have agreed how it ended.
Ending live(const MpiSession& session, OnWatch& watched, const Start& start, const Limits& limits,
            const std::function<void(Runtime&)>& body) {
  std::unique_ptr<Transport> transport = session.transport();
  if (start.launched) watched.record->ready();
  if (start.launched || start.ranks > 1) meet_hosts(*transport, start, limits, watched);
  g_heartbeat = watched.heartbeat.get();
  Transport& wires = *transport;
  Runtime runtime(std::move(transport), watched.record.get(), start.kind);
  if (watched.heartbeat) wires.observe(watched.record.get());
  static const bool watches = on_exit(left_by_exit, nullptr) == 0;
  check(watches, "a process can register a function for its exit");
  g_in_body = !start.launched && start.ranks > 1;
  Ending own = guarded([&] {
    body(runtime);
    check(wires.idle(), "the body ended with an unfinished message");
  });
  g_in_body = false;
  const bool elsewhere = own.rank >= 0 && own.rank != start.rank;
  if (own.code != 0) own.text = named(elsewhere ? "rank " + std::to_string(own.rank) : runtime.name(), own.text);
  runtime.phase("end");
  const auto all = control::farewell(wires, own.code, own.text, own.code == 0 ? 0 : kPatienceSeconds);
  wires.observe(nullptr);
  const Ending end = all ? Ending{all->worst.status, all->worst.text} : own;
  if (end.code != 0 && (!all || all->worst.rank == start.rank)) say_lines(own.text);
  if (all && all->clean) {
    if (watched.record) watched.record->agreed(end.code, end.text);
    return end;
  }
  // Not an orderly end: MPI_Finalize would wait for the messages that are still in flight.
  give_up(watched, start, end);
}

// Where motley's launcher does not watch the start: ends the job if MPI_Init does not return in time. Every rank waits in it for
// the others; MPICH does not notice one that ended or stopped before.
class StartDeadline {
 public:
  StartDeadline(int rank, double seconds)
      : thread_([this, rank, seconds] {
          std::unique_lock lock(mutex_);
          if (begun_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return has_begun_; })) return;
          say_lines(named("rank " + std::to_string(rank),
                          fmt::format("MPI_Init has not returned after {:g} s: a rank has not started, or has ended "
                                      "or stopped before; set MOTLEY_START_SECONDS if ranks start slowly",
                                      seconds)));
          MpiSession::end_others(static_cast<int>(Exit::hung));
          _exit(static_cast<int>(Exit::hung));
        }) {}
  ~StartDeadline() {
    {
      const std::lock_guard lock(mutex_);
      has_begun_ = true;
    }
    begun_.notify_one();
    thread_.join();
  }
  StartDeadline(const StartDeadline&) = delete;
  StartDeadline& operator=(const StartDeadline&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable begun_;
  bool has_begun_ = false;
  std::thread thread_;
};

int run_among_others(const Start& start, int argc, char** argv, const std::function<void(Runtime&)>& body) {
  OnWatch watched;
  std::optional<MpiSession> session;
  Ending end;
  const Ending failure = guarded([&] {
    const Limits limits = Limits::from_environment();
    if (const char* cores = std::getenv("MOTLEY_CORES")) bind_to_cores(parse_cores(cores));
    if (start.launched) {
      watched.record = std::make_unique<RecordWriter>(start.records, start.rank, start.device);
      watched.heartbeat = std::make_unique<Heartbeat>(*watched.record, limits, Heartbeat::Voice::silent, start.records);
    }
    require_shared_space();
    {
      std::optional<StartDeadline> deadline;
      if (!start.launched && start.ranks > 1) deadline.emplace(start.rank, limits.start_seconds);
      session.emplace(argc, argv);
    }
    end = live(*session, watched, start, limits, body);
    session->finish();
  });
  if (failure.code != 0) {
    end = {failure.code, named("rank " + std::to_string(start.rank), failure.text)};
    say_lines(end.text);
  }
  if (failure.code != 0) give_up(watched, start, end);
  quit_watch(watched);
  if (watched.record) watched.record->ended(end.code, end.text);
  return end.code;
}

}  // namespace

Runtime::Runtime(std::unique_ptr<Transport> transport, RecordWriter* record, std::string kind)
    : transport_(std::move(transport)), record_(record), kind_(std::move(kind)) {
  if (transport_ == nullptr) throw UserError("the transport is a null pointer");
}
Runtime::~Runtime() = default;

void Runtime::print(const std::string& text) const {
  if (rank() != 0) return;
  const std::string line = mark_result() + text + (text.ends_with('\n') ? "" : "\n");
  if (std::fwrite(line.data(), 1, line.size(), stdout) == line.size() && std::fflush(stdout) == 0) return;
  if (errno != EPIPE)  // the reader of a pipe has closed it: it has all that it wants
    throw Error(Exit::io, std::string("stdout: ") + std::strerror(errno));
}

void Runtime::phase(const std::string& text) {
  if (record_ != nullptr) record_->phase(text);
}

bool Runtime::stop_requested() const {
  return g_stop;
}

StopsAtOnce::StopsAtOnce() {
  g_stops_at_once++;
  if (!g_stop) return;
  g_stops_at_once--;
  throw Stopped("stopped on request");
}
StopsAtOnce::~StopsAtOnce() {
  g_stops_at_once--;
}

std::string Runtime::name() const {
  return "rank " + std::to_string(rank()) + (kind_.empty() ? "" : " " + kind_);
}

int run(int argc, char** argv, const std::function<void(Runtime&)>& body) {
  static bool among_others = false;  // in an earlier call
  int code = 0;
  const Ending ending = guarded([&] {
    if (!body) throw UserError("there is no body to run");
    if (among_others)
      throw UserError("run() was called again in this process, but MPI starts only once; call it once, with all work in its body");
    handle_signals();
    const Start start = how_started();
    if (start.lone_tasks > 0) throw UserError(lone_tasks_text(start) + "; use MPICH's mpiexec, or srun --mpi=pmi2");
    if (start.mpi) {
      among_others = true;
      code = run_among_others(start, argc, argv, body);
      return;
    }
    Runtime alone(std::move(in_memory(1)[0]));
    const Ending own = guarded([&] { body(alone); });
    if (own.code != 0) say_lines(named(alone.name(), own.text));
    code = own.code;
  });
  if (ending.code == 0) return code;
  say_lines("motley: " + ending.text);
  return ending.code;
}

void run_ranks(std::vector<std::unique_ptr<Transport>> transports, const std::function<void(Runtime&)>& body) {
  std::exception_ptr first;
  std::mutex mutex;
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<Runtime>> runtimes;
  for (auto& transport : transports) runtimes.push_back(std::make_unique<Runtime>(std::move(transport)));
  const auto fail = [&](const std::exception_ptr& error) {
    const std::lock_guard lock(mutex);
    if (!first) first = error;
  };
  const auto live_on_thread = [&](Runtime& rt) {
    const Ending end = guarded([&] {
      try {
        body(rt);
      } catch (...) {
        fail(std::current_exception());
        throw;
      }
    });
    if (end.code != 0) rt.transport().abort(Error(static_cast<Exit>(end.code), end.text));
  };
  threads.reserve(runtimes.size());
  try {
    for (auto& runtime : runtimes) threads.emplace_back(live_on_thread, std::ref(*runtime));
  } catch (const std::exception& e) {
    const DeviceError none("rank " + std::to_string(threads.size()) + " has no thread to run on: " + e.what());
    fail(std::make_exception_ptr(none));
    runtimes.front()->transport().abort(none);
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

void run_ranks_in_memory(int ranks, const std::function<void(Runtime&)>& body) {
  if (!body) throw UserError("there is no body to run");
  if (ranks < 1) throw UserError(std::to_string(ranks) + " ranks; expected at least one");
  run_ranks(in_memory(ranks), body);
}

}  // namespace motley
