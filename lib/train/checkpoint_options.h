// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/dims.h>

namespace motley {

// When a run saves, and how many checkpoints it keeps. Nothing set: only when it receives a request to stop.
struct CheckpointOptions {
  Index every_steps = 0, every_epochs = 0;  // at most one of the three is above 0
  double every_seconds = 0;
  Index keep = 3;  // number of checkpoints, the newest ones
  bool any() const { return every_steps > 0 || every_epochs > 0 || every_seconds > 0; }
};

}  // namespace motley
