// SPDX-License-Identifier: Apache-2.0
// How much of its cores' time other processes took from this one: what is timed meanwhile is only worth keeping where that is
// little.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

namespace motley {

// Seconds since the machine started that the cores were in use by anyone: user, nice, system, interrupts, and what a hypervisor
// gave to other machines (steal), of these cores' lines in the text of /proc/stat (proc(5)). None: a core has no line.
std::optional<double> busy_core_seconds(std::string_view proc_stat, const std::vector<int>& cores, double ticks_per_second);
// Seconds that a thread was ready to run and waited for a core, of the text of its schedstat (the second number, nanoseconds).
// None: not there.
std::optional<double> waited_seconds(std::string_view schedstat);

// While it lives: this thread works beside those that are timed, on other cores. Neither its time there nor that it waits for them
// counts.
class ThreadBeside {
 public:
  ThreadBeside();
  ~ThreadBeside();
  ThreadBeside(const ThreadBeside&) = delete;
  ThreadBeside& operator=(const ThreadBeside&) = delete;
};

// The time from its construction to a call. Linux alone; of all threads of this process together.
class CoreUse {
 public:
  explicit CoreUse(std::vector<int> cores);  // those that this process may use
  // Of the cores' time, the share that others had: in use but not by this process, less the two ticks (of 10 ms) per core that two
  // readings of rounded ticks may be wrong by, or, where that is more, waited for by its threads (exact). 0..1; none where /proc
  // does not say.
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

}  // namespace motley
