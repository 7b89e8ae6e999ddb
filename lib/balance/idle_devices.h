// SPDX-License-Identifier: Apache-2.0
// Devices that compute nothing in a plan, and why.
#pragma once
#include <vector>

#include "balance/choose_parts.h"

namespace motley {

// with: what the search knows of each rank; empty: nothing was searched.
std::vector<IdleDevice> idle_devices(const PlanData& plan, const std::vector<PlansWith>& with);

}  // namespace motley
