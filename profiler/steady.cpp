// SPDX-License-Identifier: Apache-2.0
#include "profiler/steady.h"

#include <algorithm>
#include <cmath>

#include "base/quantile.h"

namespace motley {

namespace {

constexpr std::size_t kAround = 7;  // runs before and after a run that show the machine's speed
constexpr double kQuiet = 0.1;      // of the runs, the fastest ones
constexpr int kTurns = 4;           // alternations of the two estimates, each computed from the other

}  // namespace

Steadied without_drift(std::span<const TimedRun> runs) {
  Steadied out;
  std::size_t kernels = 0;
  for (const TimedRun& r : runs) {
    out.seconds.push_back(r.seconds);
    kernels = std::max(kernels, r.kernel + 1);
  }
  if (kernels < kLeastKernels || runs.size() < 2 * kAround) return out;
  std::vector<double> speed(runs.size(), 1), own(kernels, 0), around;
  std::vector<std::vector<double>> of_kernel(kernels);
  for (int turn = 0; turn < kTurns; turn++) {
    for (auto& list : of_kernel) list.clear();
    for (std::size_t i = 0; i < runs.size(); i++) of_kernel[runs[i].kernel].push_back(runs[i].seconds / speed[i]);
    for (std::size_t k = 0; k < kernels; k++)
      if (!of_kernel[k].empty()) own[k] = quantile(of_kernel[k], 0.5);
    for (std::size_t i = 0; i < runs.size(); i++) {
      around.clear();
      for (std::size_t j = i - std::min(i, kAround); j < std::min(runs.size(), i + kAround + 1); j++)
        around.push_back(runs[j].seconds / own[runs[j].kernel]);
      speed[i] = quantile(around, 0.5);
    }
  }
  std::vector<double> sorted = speed;
  const double quiet = quantile(sorted, kQuiet);
  for (std::size_t i = 0; i < runs.size(); i++) out.seconds[i] *= quiet / speed[i];
  out.slow = quantile(sorted, 0.75) / quiet;
  out.fast = quantile(sorted, 0.25) / quiet;
  return out;
}

}  // namespace motley
