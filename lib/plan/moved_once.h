// SPDX-License-Identifier: Apache-2.0
// What is read with the same values again and again: by all micro-batches of a training step parameters, by all steps frozen
// parameters, and tensors computed from these alone (a part of a table of positions, their copies in bf16). They are computed and
// sent in the first micro-batch, or in the first step after the State has changed, and kept.
#pragma once
#include <algorithm>
#include <vector>

#include "plan/plan_data.h"

namespace motley {

// Whether there is anything that could be kept.
inline bool may_keep(const Passes& passes) {
  return passes.accumulate > 1 || std::any_of(passes.parameters.begin(), passes.parameters.end(),
                                              [&](int p) { return passes.tensors[static_cast<std::size_t>(p)].frozen; });
}

// Per tensor. With micro-batches: once in a step; else: once in a run. None if there is no memory for them (PlanData::repeats).
inline std::vector<bool> moved_once(const PlanData& data) {
  std::vector<bool> out(data.passes.tensors.size(), false);
  if (!may_keep(data.passes) || data.repeats) return out;
  for (const int p : data.passes.parameters) {
    const auto t = static_cast<std::size_t>(p);
    out[t] = data.passes.accumulate > 1 || data.passes.tensors[t].frozen;
  }
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

// Per tensor: how often it is moved in a training step, other than the first one.
inline std::vector<Index> moves_per_step(const PlanData& data) {
  const Index kept = data.passes.accumulate > 1 ? 1 : 0;
  std::vector<Index> out;
  for (const bool once : moved_once(data)) out.push_back(once ? kept : data.passes.accumulate);
  return out;
}

}  // namespace motley
