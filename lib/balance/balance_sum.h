// SPDX-License-Identifier: Apache-2.0
// One cut shared by several kernels with a wait between them: their makespans add.
#pragma once
#include <motley/balance_dim.h>

namespace motley {

struct SumOptions {
  std::vector<Index> caps{};           // most units per rank; empty: any
  std::vector<Index> steps{};          // sizes tried first when there are too many cuts (granules); empty: all
  std::int64_t* considered = nullptr;  // set to the number of cuts whose seconds on all ranks in all groups were summed
};

// The parts with the least  sum over groups g of max over ranks of groups[g][rank][parts[rank]]. Ties: the least sum of all ranks'
// seconds, then the lexicographically greatest. Exact for one or two ranks; for more as long as the cuts are few enough to be
// enumerated (with bounds); else the best found by moves between any two ranks, starting from each group's own optimum, the optimum
// of the summed tables, even, proportional and each rank alone. UserError: no cut fits. next_best and idle as in balance_dim, idle
// summed over the groups.
DimBalance balance_sum(const std::vector<SizeTables>& groups, Index size, const SumOptions& options = {});

}  // namespace motley
