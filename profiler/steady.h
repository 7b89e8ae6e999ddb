// SPDX-License-Identifier: Apache-2.0
// Kernel times corrected for interference: on a shared machine a core can be a third slower for a tenth of a second or for minutes,
// and a kernel's median then says when it was timed, not how long it takes compared with another kernel, or on another core.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

namespace motley {

struct TimedRun {
  std::size_t kernel = 0;  // number of the kernel; kernels are timed in turn
  double seconds = 0;      // above 0
};

struct Steadied {
  std::vector<double> seconds{};  // of each run, as if the machine had always been quiet
  double slow = 1, fast = 1;      // upper and lower quartile of the runs' slowness relative to that
};

// Runs in the order in which they were made, of kernels in shuffled rounds. A run's time is its kernel's own time times the
// machine's slowness at that moment; the latter is common to the runs around it (some of other kernels). Quiet: the speed that it
// has in the fastest tenth of the runs: other processes slow a core down and never speed it up. With fewer than kLeastKernels
// different kernels the two cannot be separated: the times stay as they are.
constexpr std::size_t kLeastKernels = 8;
Steadied without_drift(std::span<const TimedRun> runs);

}  // namespace motley
