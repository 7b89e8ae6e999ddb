// SPDX-License-Identifier: Apache-2.0
// A step whose batch is processed in parts (micro-batches).
#pragma once
#include <string>

#include "graph/passes.h"

namespace motley {

// The first dim of an input that has the labels of all micro-batches; its further dims are those of one micro-batch's labels.
inline constexpr const char* kMicroBatches = "micro-batches";

// Changes the passes to those of one of `parts` micro-batches: the batch (the first dim of every input) has that part of its size,
// means divide by the complete batch. UserError: `parts` does not divide it, it is not the first dim of every input, an op
// changes it, or the losses do not add up.
void cut_batch(Passes& passes, Index parts);

// Whether the operand has the index of this name.
bool has_index(const PassOperand& o, const std::vector<PassIndex>& indices, const std::string& name);

// UserError: a loss (passes.outputs) whose values in micro-batches do not add up to that of the batch. Sums and means over samples
// do, also times parameters and added; norms in between use the statistics of a micro-batch.
void check_losses_add_up(const Passes& passes, const std::string& batch);

// The first layer of an inference that computes a sample's values from other samples too, where the dim `batch` counts them; or "".
std::string layer_across_samples(const Passes& passes, const std::string& batch);

}  // namespace motley
