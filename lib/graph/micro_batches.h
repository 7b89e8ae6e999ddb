// SPDX-License-Identifier: Apache-2.0
// A step whose batch goes through in parts.
#pragma once
#include "graph/passes.h"

namespace motley {

// The dim of an input that has the labels of all micro-batches, whose further dims are those of one.
inline constexpr const char* kMicroBatches = "micro-batches";

// Makes the passes those of one of `parts` micro-batches: the batch (the first dim of every input) has that part of its size, means
// divide by the complete one. UserError: it does not divide, or is not what every input counts, or an op changes it.
void cut_batch(Passes& passes, Index parts);

}  // namespace motley
