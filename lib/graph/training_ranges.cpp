// SPDX-License-Identifier: Apache-2.0
#include "graph/training_ranges.h"

#include <motley/error.h>

#include <algorithm>
#include <functional>

namespace motley {

bool ends(const RateSchedule& schedule) {
  using Kind = RateSchedule::Kind;
  return schedule.kind == Kind::linear || schedule.kind == Kind::cosine || schedule.kind == Kind::polynomial ||
         schedule.kind == Kind::one_cycle;
}

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
  const bool one_cycle = s.kind == RateSchedule::Kind::one_cycle;
  require_within("schedule, warmup_steps", s.warmup_steps, TrainingRanges::warmup_steps);
  if (one_cycle && s.warmup_steps > 0)
    throw UserError(
        "schedule, warmup_steps: a one_cycle schedule has none; `rise` is the share of the steps in which its rate rises");
  if (s.final) require_within("schedule, final", *s.final, TrainingRanges::final);
  require_within("schedule, factor", s.factor,
                 s.kind == RateSchedule::Kind::plateau ? TrainingRanges::fall : TrainingRanges::factor);
  if (s.initial) require_within("schedule, initial", *s.initial, TrainingRanges::initial);
  require_within("schedule, rise", s.rise, TrainingRanges::rise);
  require_within("schedule, power", s.power, TrainingRanges::power);
  require_within("schedule, patience", s.patience, TrainingRanges::patience);
  require_within("schedule, threshold", s.threshold, TrainingRanges::threshold);
  require_within("schedule, minimum", s.minimum, TrainingRanges::minimum);
  // A job's number of steps follows from its data.
  require_within("schedule, steps", s.steps, Interval<Index>{.least = ends(s) ? 1 : 0});
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
