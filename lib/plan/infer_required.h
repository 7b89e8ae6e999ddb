// SPDX-License-Identifier: Apache-2.0
// Bounds inference among the indices of one pass: both ends of a window, both sides of an index map.
#pragma once
#include <motley/dims.h>

#include <vector>

#include "graph/passes.h"

namespace motley {

// Removes from a work box (one range per index) what nothing else in it needs: outputs whose windows do not overlap the rows read,
// and rows that no such window covers (but not the rows after a convolution's last window, fewer than its stride: kernels take them
// as negative padding, and x need not be copied without them); what the index_maps of a change of shape do not need (index_maps.h);
// `terms` (OwnPart) of other ranks' parts.
void infer_required(const Pass& pass, Box& work);

// Rows of the read end that the windows of the outputs `made` cover, without those outside of 0..size-1.
Range reach_of(const Window& window, Range made, Index taps, Index size);

}  // namespace motley
