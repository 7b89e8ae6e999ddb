// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

namespace motley {

// Those names of a mesh's "isa" whose instruction sets this machine's CPU can run, slowest first.
std::vector<std::string> usable_isas();

}  // namespace motley
