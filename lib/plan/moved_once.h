// SPDX-License-Identifier: Apache-2.0
// What all micro-batches of a training step read with the same values: parameters, and tensors computed from parameters alone (a
// part of a table of positions). These are computed and sent in the first micro-batch, and kept.
#pragma once
#include <algorithm>
#include <vector>

#include "plan/plan_data.h"

namespace motley {

// Per tensor. None if there is one micro-batch, or no memory for them (PlanData::repeats).
inline std::vector<bool> moved_once(const PlanData& data) {
  std::vector<bool> out(data.passes.tensors.size(), false);
  if (data.passes.accumulate == 1 || data.repeats) return out;
  for (const int p : data.passes.parameters) out[static_cast<std::size_t>(p)] = true;
  std::vector<bool> varies(out.size(), false);
  for (const Pass& pass : data.passes.passes) {
    const auto t = static_cast<std::size_t>(pass.writes.tensor);
    const auto stays = [&](const PassOperand& o) { return out[static_cast<std::size_t>(o.tensor)]; };
    // If partial sums or copies are sent too, a rank may receive again into memory that others read.
    const bool moves = !data.tensors.empty() && (data.tensors[t].add.travels() || data.tensors[t].copy.travels());
    if (data.passes.tensors[t].role != TensorRole::activation || moves || !std::all_of(pass.reads.begin(), pass.reads.end(), stays))
      varies[t] = true;
    out[t] = !varies[t];  // of all passes that write the tensor
  }
  for (const int t : data.passes.outputs) out[static_cast<std::size_t>(t)] = false;
  return out;
}

}  // namespace motley
