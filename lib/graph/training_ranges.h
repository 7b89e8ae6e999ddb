// SPDX-License-Identifier: Apache-2.0
// What the values of TrainingOptions may be, which a job's "train" calls by the same names.
#pragma once
#include <motley/step.h>

#include <string>

#include "base/interval.h"

namespace motley {

struct TrainingRanges {
  static constexpr Interval<Index> warmup_steps{0}, milestone{1}, accumulate{1, Index{1} << 20};
  // So that an epoch's steps, so many times, are a number of steps:
  static constexpr Interval<Index> epochs{1, Index{1'000'000'000}}, steps{1, Index{1'000'000'000'000'000}};
  static constexpr Interval<double> final{0}, factor{0};
  // Where they are given:
  static constexpr Interval<double> clip_norm{.above = true, .otherwise = "gradients are not clipped"};
  static constexpr Interval<double> average{.most = 1, .above = true, .below = true, .otherwise = "weights are not averaged"};
};

// What is wrong with the milestones of a schedule; empty: nothing.
std::string wrong_milestones(const RateSchedule& schedule);
// UserError names the value.
void check_options(const TrainingOptions& options);

}  // namespace motley
