// SPDX-License-Identifier: Apache-2.0
// A plan bound to one rank's device; every run is a whole step on the same made-up batch.
#pragma once
#include <motley/executor.h>
#include <motley/plan.h>
#include <motley/state.h>

#include <vector>

namespace motley::bench {

class Bound {
 public:
  Bound(Plan plan, Program program, Backend& backend, Transport& transport);
  Ran run();
  const Plan& plan() const { return plan_; }
  const std::vector<double>& seconds() const { return seconds_; }            // per run
  const std::vector<double>& convolutions() const { return convolutions_; }  // of them

 private:
  double in_convolutions() const;  // seconds so far
  Plan plan_;
  Program program_;
  State state_;
  Executor executor_;
  std::vector<double> seconds_{}, convolutions_{};
};

// The same kernels, and no exchange.
Program kernels_alone(Program program);
double least(const std::vector<double>& values);
double median(std::vector<double> values);
// Per run the slowest rank's. Collective.
std::vector<double> slowest(Transport& transport, const std::vector<double>& mine);

// A profile of one of its devices, for a mesh of that device alone.
Profile profile_of(const Profile& profile, int device);

}  // namespace motley::bench
