// SPDX-License-Identifier: Apache-2.0
#include "train/course.h"

#include <fmt/format.h>
#include <motley/error.h>
#include <motley/trainer.h>

#include <algorithm>

namespace motley {

Course whole_course(const Extent& run) {
  return {0, run.max_steps > 0 ? run.max_steps : run.epochs * run.steps_per_epoch()};
}

Course course_from(const std::string& checkpoint, const DataPosition& from, Index steps_done, const Extent& run) {
  if (from.epoch > steps_done)
    throw UserError(fmt::format("{}: epoch {} after {} steps: an epoch has at least one step", checkpoint, from.epoch, steps_done),
                    Exit::data);
  const Index per_epoch = run.steps_per_epoch();
  if (per_epoch < 1) throw UserError(fmt::format("{} samples are fewer than one batch of {}", run.samples, run.batch));
  if (from.epoch > (Index{1} << 60) / per_epoch)
    throw UserError(fmt::format("{}: epoch {} of {} steps each is beyond what is counted", checkpoint, from.epoch, per_epoch),
                    Exit::data);
  const Index batch = from.batch_size > 0 ? from.batch * from.batch_size / run.batch : from.batch;
  const Index first = from.epoch * per_epoch + std::min(batch, per_epoch);
  const Index end = run.max_steps > 0 ? first + run.max_steps - steps_done : run.epochs * per_epoch;
  if (end < first)
    throw UserError(
        fmt::format("{} is at step {}: nothing is left to train; raise train.max_steps or train.epochs (--set train.max_steps=...)",
                    checkpoint, steps_done));
  return {first, end};
}

}  // namespace motley
