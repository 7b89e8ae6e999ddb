// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/learning_rate.h>

#include <optional>

namespace motley {

// When a run saves, and how many checkpoints it keeps. Nothing set: only when it receives a request to stop.
struct CheckpointOptions {
  Index every_steps = 0, every_epochs = 0;  // at most one of the three is above 0
  double every_seconds = 0;
  Index keep = 3;  // number of checkpoints, the newest ones
  bool any() const { return every_steps > 0 || every_epochs > 0 || every_seconds > 0; }
};

// What the evaluations of a run decide.
struct WatchOptions {
  std::optional<Watched> keep_best{};  // one more checkpoint is kept: the best
  Index stop_after = 0;                // so many evaluations without a gain end the run; 0: they do not
  bool any() const { return keep_best || stop_after > 0; }
  // What they watch: of a run that does not say it, what its schedule does.
  Watched watched(const RateSchedule& schedule) const {
    if (keep_best) return *keep_best;
    return schedule.kind == RateSchedule::Kind::plateau ? schedule.watch : Watched::test_loss;
  }
};

}  // namespace motley
