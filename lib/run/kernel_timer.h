// SPDX-License-Identifier: Apache-2.0
// Times kernels on all ranks at the same time, within a budget, and adds their times to a profile.
#pragma once
#include <motley/measure.h>

#include <string>
#include <vector>

#include "base/clock.h"
#include "profiler/measure_kernels.h"
#include "run/quiet.h"

namespace motley {

// All functions except say() are collective, the constructor too.
class KernelTimer {
 public:
  KernelTimer(Runtime& rt, Backend& backend, const MeasureOptions& options) : rt_(rt), backend_(backend), options_(options) {}

  // Times this rank's kernels within this share of the remaining budget: at a smaller batch if the full one does not fit, checked
  // at the full one. False: it does not fit; `required` kernels may take the whole budget again (rather late than not at all).
  bool measure(Profile& profile, const std::vector<KernelSpec>& specs, double share, bool required);
  bool over_budget() const { return seconds() > options_.budget_seconds; }
  [[noreturn]] void refuse_budget() const;  // UserError, after measure() returned false
  // Measures how much faster a rank's kernels are while the other ranks wait.
  void measure_alone(Profile& profile);
  void say(const std::string& line) const;  // rank 0's progress

  Index step_bytes = 0;  // of this rank's memory, with even parts

 private:
  double seconds() const { return seconds_now() - start_ - waited_; }  // of the budget
  RoundBarrier together();
  void say_what_is_measured(Index kernels, double budget);
  double spread() const;
  double patience() const;
  Measurement with_wait_counted(Measurement made);
  Measurement measured(const std::vector<KernelSpec>& specs, double budget, int most_rounds, double spread_seconds = 0);
  std::vector<KernelSpec> own_largest(const Profile& profile) const;
  std::vector<KernelSpec> anchors(const Profile& profile) const;
  void rescale(Measurement& made, const std::vector<KernelSpec>& full, const std::vector<KernelSpec>& smaller, double budget);
  void merge(Profile& profile, const Measurement& made);

  Runtime& rt_;
  Backend& backend_;
  const MeasureOptions& options_;
  const bool own_cores_ = has_own_cores(rt_.transport());
  const double start_ = seconds_now();
  double needed_seconds_ = 0;  // for kernels that did not fit
  double waited_ = 0;          // seconds, for other processes to leave the cores
};

// The times of kernels at the full batch, from those measured at smaller ones (the same positions): a kernel takes as many times
// longer as it has more samples, times what the check of its kind takes beyond that. checks: the largest kernel of each kind, at
// the full batch.
std::vector<KernelPoint> at_full_batch(const std::vector<KernelPoint>& made, const std::vector<KernelSpec>& smaller,
                                       const std::vector<KernelSpec>& full, const std::vector<KernelPoint>& checks);

}  // namespace motley
