// SPDX-License-Identifier: Apache-2.0
// Real steps of several plans, timed in turn.
#pragma once
#include <motley/plan.h>
#include <motley/runtime.h>

#include <functional>
#include <string>
#include <vector>

namespace motley {

// Some steps of one plan in a round.
struct StepVisit {
  double seconds = 0;      // the median, on the slowest rank
  bool disturbed = false;  // other processes had a rank's cores for a part of that time
};
// Of one plan, by round. Empty: it does not fit.
using StepRounds = std::vector<StepVisit>;

// The seconds of the visits that were not disturbed; of all, if fewer than two were not.
std::vector<double> counted_seconds(const StepRounds& rounds);
// By round, the plan's seconds over the reference's. Disturbed visits do not count: for one of the reference its median is taken.
// If fewer than two visits of either were not disturbed, all count, over the reference's of the same round.
std::vector<double> over_reference(const StepRounds& plan, const StepRounds& reference);

// Every round runs each plan in turn, with parameters and inputs of its own; one is in memory at a time. The first plan is the
// reference: a plan for which three rounds beside those before it do not fit into `seconds` is left out, as if it did not fit.
// All empty: not even two plans do. Collective; the same on every rank. say: rank 0's progress.
std::vector<StepRounds> real_steps(Runtime& rt, const std::vector<Plan>& plans, double seconds,
                                   const std::function<void(const std::string&)>& say);

}  // namespace motley
