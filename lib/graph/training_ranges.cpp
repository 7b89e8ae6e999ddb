// SPDX-License-Identifier: Apache-2.0
#include "graph/training_ranges.h"

#include <motley/error.h>

#include <algorithm>
#include <functional>

namespace motley {

std::string wrong_milestones(const RateSchedule& schedule) {
  const std::vector<Index>& steps = schedule.milestones;
  if (schedule.kind == RateSchedule::Kind::step && steps.empty())
    return "expected the steps at which the learning rate falls, found none";
  const auto wrong = std::adjacent_find(steps.begin(), steps.end(), std::greater_equal<>());
  return wrong == steps.end()
             ? ""
             : "expected ascending steps, found " + std::to_string(wrong[1]) + " after " + std::to_string(wrong[0]);
}

void check_options(const TrainingOptions& options) {
  const RateSchedule& s = options.schedule;
  const bool falls = s.kind == RateSchedule::Kind::linear || s.kind == RateSchedule::Kind::cosine;
  require_within("schedule, warmup_steps", s.warmup_steps, TrainingRanges::warmup_steps);
  require_within("schedule, final", s.final, TrainingRanges::final);
  require_within("schedule, factor", s.factor, TrainingRanges::factor);
  // A job's number of steps follows from its data.
  require_within("schedule, steps", s.steps, Interval<Index>{.least = falls ? 1 : 0});
  for (const Index milestone : s.milestones) require_within("schedule, milestones", milestone, TrainingRanges::milestone);
  if (const std::string wrong = wrong_milestones(s); !wrong.empty()) throw UserError("schedule, milestones: " + wrong);
  if (options.clip_norm != 0) require_within("clip_norm", options.clip_norm, TrainingRanges::clip_norm);
  require_within("accumulate", options.accumulate, TrainingRanges::accumulate);
  if (options.average != 0) require_within("average", options.average, TrainingRanges::average);
  for (const ParameterGroup& group : options.groups) {
    require_within("groups, learning_rate_factor", group.learning_rate_factor, TrainingRanges::learning_rate_factor);
    if (group.weight_decay) require_within("groups, weight_decay", *group.weight_decay, TrainingRanges::weight_decay);
  }
}

}  // namespace motley
