// SPDX-License-Identifier: Apache-2.0
// How the indices of one pass bound each other: both ends of a window, both sides of a map.
#pragma once
#include <motley/dims.h>

#include <vector>

#include "graph/passes.h"

namespace motley {

// Takes from a work box (one range per index) what nothing else in it reaches: outputs whose windows do not touch the rows read,
// rows that no such window reaches; what the index_maps of a change of shape do not need (index_maps.h); the terms of others'
// parts.
void infer_required(const Pass& pass, std::vector<Range>& work);

// Rows of the read end that the outputs `made` reach, those outside of 0..size-1 left out.
Range reach_of(const Window& window, Range made, Index taps, Index size);

}  // namespace motley
