// SPDX-License-Identifier: Apache-2.0
#include "train/gains.h"

#include <cmath>

namespace motley {

// The bounds are PyTorch's (ReduceLROnPlateau, threshold_mode "rel"); of a best value below 0 they are on the better side too.
bool is_gain(const Gains& so_far, double value, double threshold) {
  if (!std::isfinite(value)) return false;
  if (!so_far.best) return true;
  const double best = *so_far.best, by = best < 0 ? -threshold : threshold;
  return so_far.watch == Watched::test_loss ? value < best * (1 - by) : value > best * (1 + by);
}

bool add(Gains& gains, Index step, double value, double threshold) {
  if (gains.evaluated == step) return false;
  gains.evaluated = step;
  const bool gain = is_gain(gains, value, threshold);
  gains.without_gain = gain ? 0 : gains.without_gain + 1;
  if (!gain) return false;
  gains.best = value;
  gains.step = step;
  return true;
}

bool add(RunMemory& memory, const RateSchedule& schedule, Index step, double value) {
  add(memory.plateau, step, value, schedule.threshold);
  if (memory.plateau.without_gain <= schedule.patience) return false;
  memory.plateau.without_gain = 0;
  memory.scale *= schedule.factor;
  return true;
}

bool has_just_fallen(const RunMemory& memory, Index step) {
  const Gains& its = memory.plateau;
  return its.evaluated == step && its.without_gain == 0 && its.step != step;
}

}  // namespace motley
