// SPDX-License-Identifier: Apache-2.0
// Lists of parts as text for people.
#pragma once
#include <motley/dims.h>

#include <string>
#include <vector>

namespace motley {

std::string parts_text(const std::vector<Index>& parts);               // "40/24"
std::string lists_text(const std::vector<std::vector<Index>>& lists);  // "40/24 or 30/34"

}  // namespace motley
