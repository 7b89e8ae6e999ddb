// SPDX-License-Identifier: Apache-2.0
// "axes": "auto": the axes of a mesh, and which device is where along them.
#pragma once
#include <motley/arrange.h>

#include <string>
#include <vector>

#include "plan/plan_data.h"

namespace motley {

// One axis `all`, with the devices as listed; then for every a * b = ranks, both above 1, axes `outer` of a and `inner` of b: the
// devices as listed, hosts along either axis, kinds of devices along either axis. Of those with equal devices (but for name, index
// and cores) at all places only the first.
std::vector<Arrangement> arrangements(const Mesh& given);

// For people and plan files.
AxesChoice choice_of(const Arranged& all);
// "axes auto: ..., predicted 12.3 ms; next best ..., 13.1 ms; 5 complete plans, 3 more arrangements dropped by tables"
std::string axes_text(const AxesChoice& axes);

}  // namespace motley
