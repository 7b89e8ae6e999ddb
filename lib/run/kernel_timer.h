// SPDX-License-Identifier: Apache-2.0
// Times kernels on all ranks at the same time, within a budget, and adds what they took to a profile.
#pragma once
#include <motley/measure.h>

#include <string>
#include <vector>

#include "base/clock.h"
#include "profiler/measure_kernels.h"

namespace motley {

// All but say() is collective.
class KernelTimer {
 public:
  KernelTimer(Runtime& rt, Backend& backend, const MeasureOptions& options) : rt_(rt), backend_(backend), options_(options) {}

  // This rank's kernels, within this share of what is left of the budget: at a smaller batch where it takes that, checked at the
  // full one. False: it does not fit.
  bool measure(Profile& profile, const std::vector<KernelSpec>& specs, double share);
  [[noreturn]] void refuse_budget() const;  // UserError, after measure() gave false
  // How much faster a rank's kernels are while the others wait.
  void measure_alone(Profile& profile);
  void say(const std::string& line) const;  // rank 0's progress

  Index step_bytes = 0;  // of this rank's memory, with even parts

 private:
  double seconds() const { return seconds_now() - start_; }
  RoundBarrier together();
  Measurement measured(const std::vector<KernelSpec>& specs, double budget, int most_rounds);
  std::vector<KernelSpec> own_largest(const Profile& profile) const;
  std::vector<KernelSpec> anchors(const Profile& profile) const;
  void rescale(Measurement& made, const std::vector<KernelSpec>& full, const std::vector<KernelSpec>& smaller, double budget);
  void merge(Profile& profile, const Measurement& made);

  Runtime& rt_;
  Backend& backend_;
  const MeasureOptions& options_;
  const double start_ = seconds_now();
  double needed_seconds_ = 0;  // for what did not fit
};

}  // namespace motley
