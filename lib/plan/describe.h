// SPDX-License-Identifier: Apache-2.0
// Exchanges as people know them.
#pragma once
#include <string>
#include <vector>

#include "plan/plan_data.h"

namespace motley {

struct Described {
  std::string tensor{};
  Collective kind = Collective::none;
  std::vector<Index> bytes{};  // received by each rank
};

// One entry per tensor and movement, in plan order; a sum that is added and then copied is one all_reduce.
std::vector<Described> describe_exchanges(const PlanData& data, int ranks);

}  // namespace motley
