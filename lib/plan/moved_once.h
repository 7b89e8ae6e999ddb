// SPDX-License-Identifier: Apache-2.0
// What all micro-batches of a training step read alike: parameters. Their values travel in the first one, and stay.
#pragma once
#include <vector>

#include "plan/plan_data.h"

namespace motley {

// Per tensor. None where there is one micro-batch, or no memory for it (PlanData::repeats).
inline std::vector<bool> moved_once(const PlanData& data) {
  std::vector<bool> out(data.passes.tensors.size(), false);
  if (data.passes.accumulate == 1 || data.repeats) return out;
  for (const int p : data.passes.parameters) out[static_cast<std::size_t>(p)] = true;
  return out;
}

}  // namespace motley
