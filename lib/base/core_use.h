// SPDX-License-Identifier: Apache-2.0
// How much of its cores' time other processes took from this one: timings taken in that period are only kept if it is little.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

namespace motley {

constexpr double kDisturbed = 0.05;  // share of the cores' time that other processes had, from which on timings are not reliable

// Seconds since the machine started in which the cores were in use by any process: user, nice, system, interrupts, and what a
// hypervisor gave to other machines (steal), from these cores' lines in the text of /proc/stat (proc(5)). None: a core has no line.
std::optional<double> busy_core_seconds(std::string_view proc_stat, const std::vector<int>& cores, double ticks_per_second);
// Seconds that a thread was ready to run but waited for a core, from the text of its schedstat (the second number, nanoseconds).
// None: the number is not there.
std::optional<double> waited_seconds(std::string_view schedstat);

// While an object of this class lives, this thread works beside the timed ones, on other cores: neither its CPU time nor its
// waiting for a core counts.
class ThreadBeside {
 public:
  ThreadBeside();
  ~ThreadBeside();
  ThreadBeside(const ThreadBeside&) = delete;
  ThreadBeside& operator=(const ThreadBeside&) = delete;
};

// Measures from its construction to a call. Linux only; all threads of this process together.
class CoreUse {
 public:
  explicit CoreUse(std::vector<int> cores);  // the cores that this process may use
  // The share of the cores' time that other processes had: time in use but not by this process, less the two ticks (of 10 ms) per
  // core by which two readings of rounded ticks may be wrong; or the time that this process's threads waited (exact), where that is
  // more. 0..1; none where /proc does not say.
  std::optional<double> others_share() const;

 private:
  struct Reading {
    std::optional<double> busy{};
    double own = 0, waited = 0, wall = 0;  // seconds: CPU time and waiting of this process, the clock
  };
  Reading read() const;
  std::vector<int> cores_;
  Reading start_;
};

// Whether other processes use these cores, more than kDisturbed of them; looks for 0.2 s, in which this process should be idle.
bool others_use(const std::vector<int>& cores);

}  // namespace motley
