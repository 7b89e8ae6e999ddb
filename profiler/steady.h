// SPDX-License-Identifier: Apache-2.0
// Kernel times without the machine's own changes of speed: on a shared machine a core is a third slower for a tenth of a second or
// for minutes, and a kernel's median then says when it was timed, not how long it takes beside another.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

namespace motley {

struct TimedRun {
  std::size_t kernel = 0;  // one of the kernels that are timed in turn
  double seconds = 0;      // above 0
};

struct Steadied {
  std::vector<double> seconds{};  // of each run, as if the machine had had its median speed all the time
  double slow = 1, fast = 1;      // quartiles of what the runs took beside that: slow >= 1 >= fast
};

// Runs in the order in which they were made, of kernels in shuffled rounds. A run's time is its kernel's own time, times what the
// machine made of it; the latter is what the runs around it (some of other kernels) have in common. With fewer than kLeastKernels
// different kernels the two cannot be separated: the times as they are.
constexpr std::size_t kLeastKernels = 8;
Steadied without_drift(std::span<const TimedRun> runs);

}  // namespace motley
