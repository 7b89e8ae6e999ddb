// SPDX-License-Identifier: Apache-2.0
// What follows from one evaluation after another; pure.
#pragma once
#include "weights/memory.h"

namespace motley {

// threshold: the part of the best value by which another one must be better. What is not finite is no gain.
bool is_gain(const Gains& so_far, double value, double threshold = 0);
// Adds the value after this step, unless it is there already. True: a gain.
bool add(Gains& gains, Index step, double value, double threshold = 0);
// The same for a schedule `plateau`. True: the learning rate falls.
bool add(RunMemory& memory, const RateSchedule& schedule, Index step, double value);

// Whether the rate fell in an evaluation after this step, which still had the rate before.
bool has_just_fallen(const RunMemory& memory, Index step);

}  // namespace motley
