// SPDX-License-Identifier: Apache-2.0
// Kernel times corrected for changes of the machine's speed: on a shared machine a core can be a third slower for a tenth of a
// second or for minutes, and a kernel's median then says when it was timed, not how long it takes compared with another kernel.
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
  std::vector<double> seconds{};  // of each run, as if the machine had always had its median speed
  double slow = 1, fast = 1;      // quartiles of the runs' slowness relative to that: slow >= 1 >= fast
};

// Runs in the order in which they were made, of kernels in shuffled rounds. A run's time is its kernel's own time times the
// machine's slowness at that moment; the latter is common to the runs around it (some of other kernels). With fewer than
// kLeastKernels different kernels the two cannot be separated: the times stay as they are.
constexpr std::size_t kLeastKernels = 8;
Steadied without_drift(std::span<const TimedRun> runs);

}  // namespace motley
