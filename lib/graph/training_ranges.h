// SPDX-License-Identifier: Apache-2.0
// The allowed values of TrainingOptions, which have the same names in a job's "train".
#pragma once
#include <motley/step.h>

#include <string>

#include "base/interval.h"

namespace motley {

struct TrainingRanges {
  static constexpr Interval<Index> warmup_steps{0}, milestone{1}, accumulate{1, Index{1} << 20};
  // Bounds such that the steps of an epoch times the epochs are a valid number of steps:
  static constexpr Interval<Index> epochs{1, Index{1'000'000'000}}, steps{1, Index{1'000'000'000'000'000}};
  static constexpr Interval<double> final{0}, factor{0}, learning_rate_factor{0}, weight_decay{0};
  static constexpr Interval<double> initial{0}, rise{.most = 1, .above = true}, power{.above = true};
  static constexpr Interval<Index> patience{0};
  static constexpr Interval<double> fall{.most = 1, .below = true}, threshold{.most = 1, .below = true}, minimum{0};
  // If they are given:
  static constexpr Interval<double> clip_norm{.above = true, .otherwise = "gradients are not clipped"};
  static constexpr Interval<double> average{.most = 1, .above = true, .below = true, .otherwise = "weights are not averaged"};
};

// Whether a schedule has a last step, with the rate `final`.
bool ends(const RateSchedule& schedule);
// What is wrong with a schedule's milestones; empty: nothing.
std::string wrong_milestones(const RateSchedule& schedule);
// UserError names the value.
void check_options(const TrainingOptions& options);

}  // namespace motley
