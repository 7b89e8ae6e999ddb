// SPDX-License-Identifier: Apache-2.0
// One launch while it runs (launcher.cpp): mpiexec, its ranks' records and process handles, and the signals received.
#pragma once
#include <poll.h>
#include <signal.h>

#include <chrono>
#include <optional>

#include "app/launcher.h"
#include "app/mpiexec.h"
#include "app/outlet.h"
#include "run/watch.h"

namespace motley {

// A file descriptor that closes itself.
class Handle {
 public:
  explicit Handle(int fd = -1) : fd_(fd) {}
  ~Handle() { reset(); }
  Handle(Handle&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Handle& operator=(Handle&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  void reset();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

class Launch {
 public:
  Launch(const LaunchOptions& options, std::filesystem::path records);
  ~Launch();  // ends everything that still runs
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
  Outcome wait();

 private:
  using Clock = std::chrono::steady_clock;
  struct Rank {
    std::string device{};
    bool here = true;  // on this host, as all ranks are: its process is below mpiexec
    Handle process{};
    bool known = false, gone = false;  // whether its process has been seen; has ended
  };
  void start(const LaunchOptions& options);
  void poll_once();
  void see_ends();
  bool reads(const Outlet& to) const;  // whether ranks' output for that reader is read now
  void read_streams();
  void find_processes();
  bool all_known() const;  // whether each rank has been seen
  // Order: whether processes that ended are reported in the order in which they ended.
  enum class Order { known, unknown };
  void rank_is_gone(std::size_t rank, Order order);
  void miss_ranks();  // finds those that had died before their processes were seen
  std::vector<std::size_t> unseen() const;
  bool saves() const;  // whether some rank writes weights or a checkpoint
  void heed_signals();
  void heed_failures();
  void heed_mpiexec();  // handles an mpiexec that remains after its ranks
  void end_at_once();
  bool mpiexec_ended();
  std::optional<Record> record(std::size_t rank) const;
  Outcome outcome() const;
  std::vector<std::size_t> first_dead() const;
  std::string obituary() const;
  Outcome worst_record() const;

  std::filesystem::path records_;
  std::chrono::system_clock::time_point began_ = std::chrono::system_clock::now();
  std::string variable_;  // MOTLEY_RUN_RECORDS=...: identifies our processes
  Watch watch_;
  std::vector<Rank> ranks_;
  pid_t mpiexec_ = -1;
  int status_ = 0;  // of mpiexec, once it has ended
  bool ended_ = false, killed_ = false, killed_mpiexec_ = false, gave_up_ = false, early_ = false;
  bool alone_ = false;             // no stranger's connection reaches mpiexec any more
  bool mpiexec_first_ = false;     // mpiexec ended before any rank did; all ranks are of this host
  Handle mpiexec_process_, ends_;  // ends_: an epoll over all processes, which reports their ends in order
  Handle output_, errors_;         // output of mpiexec and the ranks
  Outlet to_stdout_, to_stderr_;
  BannerFilter output_filter_;
  NoiseFilter errors_filter_;
  ResultOrder order_;
  std::vector<std::size_t> died_;  // the ranks whose processes ended first without a final code: found at one check
  int looks_ = 0, died_look_ = 0;  // checks of the processes so far; the check at which died_ was found
  std::optional<Hung> hung_;       // what the watch found
  int heeded_ = 0;                 // signals acted on
  std::optional<Clock::time_point> asked_{}, failed_{};  // first signal; first failure
  std::optional<Clock::time_point> seen_{};              // when the last process below mpiexec was seen
  std::optional<Clock::time_point> over_{};              // time since which every rank has ended well and all output is written
  Clock::time_point next_beat_ = Clock::now();
};

// A SIGTERM before MPI_Init is complete on every rank can hang mpiexec for good: it is delayed so long, then all is killed.
constexpr std::chrono::seconds kReadyPatience{5};
constexpr std::chrono::minutes kSavePatience{10};  // for ranks that save after a stop was requested

std::string records_variable(const std::filesystem::path& records);  // NAME=value: the ranks of a launch have it, and mpiexec
Error io_error(const std::string& what);                             // with errno's text
Handle open_process(pid_t pid);                                      // readable once it has ended; none: see errno
// Number of stop signals received so far.
int signals_so_far();
// While an object of this class lives, such signals are counted and not acted on; pending ones (blocked by the caller) are counted
// too.
class SignalGuard {
 public:
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

 private:
  sigset_t mask_before_{};
};

}  // namespace motley
