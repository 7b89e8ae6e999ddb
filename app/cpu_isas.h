// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

namespace motley {

// Of the names that a mesh's "isa" may have, those that this machine's CPU can run, slowest first.
std::vector<std::string> usable_isas();

}  // namespace motley
