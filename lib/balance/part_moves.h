// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "balance/part_trials.h"

namespace motley {

inline constexpr double kGain = 1e-3;  // minimum gain of a plan over the best one, as a part of the step's seconds

// Moves units from one part to another while the whole step, including exchanges, becomes faster, first away from the rank that
// computes longest; where memory is lacking, while less of it is, first away from the fullest rank. On several axes also on one
// coordinate of an axis alone. Makes at most `left` plans with the picks of the best one, or with their own
// where memory is lacking, and subtracts their number from `left`. The last of them that has the memory for picks of its own
// becomes the best if it is better.
void move_units(const PartTrials& trials, Trial& best, int& left);

}  // namespace motley
