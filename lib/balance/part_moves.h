// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "balance/part_trials.h"

namespace motley {

inline constexpr double kGain = 1e-3;  // of the step's seconds, by which a plan beside the best one must be faster

// Units from one part to another while the whole step, exchanges counted, becomes faster; first from the rank that computes
// longest. On several axes also on one coordinate of an axis alone. Makes at most `left` plans with the picks of the best, and
// takes them from it.
void move_units(const PartTrials& trials, Trial& best, int& left);

}  // namespace motley
