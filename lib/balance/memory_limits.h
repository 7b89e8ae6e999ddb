// SPDX-License-Identifier: Apache-2.0
// What plans need of limited memory.
#pragma once
#include <algorithm>

#include "base/at.h"
#include "plan/plan_data.h"

namespace motley {

// What a rank needs of its memory, as a share of what it has; 0: no limit.
inline double fullness(const PlanData& plan, int rank) {
  const Index has = at(plan.memory_bytes, rank);
  return has == 0 ? 0 : static_cast<double>(at(plan.predicted, rank).memory_bytes) / static_cast<double>(has);
}

// What is lacking, as a share of what a rank has, summed over the ranks; 0: the plan fits.
inline double lacking_of(const PlanData& plan) {
  double sum = 0;
  for (std::size_t r = 0; r < plan.predicted.size(); r++) sum += std::max(fullness(plan, static_cast<int>(r)) - 1, 0.0);
  return sum;
}

}  // namespace motley
