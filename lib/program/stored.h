// SPDX-License-Identifier: Apache-2.0
// What a rank has of a tensor, and which of its boxes share a buffer.
#pragma once
#include <motley/program.h>

#include <span>
#include <vector>

#include "program/local_plan.h"

namespace motley {

// The boxes that this rank has of a tensor, without buffers. Of a parameter
// none as an owner: what it owns is at its home.
std::vector<Stored> boxes_of(const LocalPlan& plan, int tensor);

// Per box the number of its buffer, from 0 in the boxes' order; a buffer is the hull of its boxes.
// A box inside another one is in that one's buffer. Others share a buffer where
// it is no larger than they are together: no buffer is larger than the sum of
// the boxes in it.
std::vector<std::size_t> buffers_for(std::span<const Box> boxes);

}  // namespace motley
