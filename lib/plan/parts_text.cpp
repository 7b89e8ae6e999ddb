// SPDX-License-Identifier: Apache-2.0
#include "plan/parts_text.h"

namespace motley {

std::string parts_text(const std::vector<Index>& parts) {
  std::string out;
  for (Index p : parts) out += (out.empty() ? "" : "/") + std::to_string(p);
  return out;
}

std::string lists_text(const std::vector<std::vector<Index>>& lists) {
  std::string out;
  for (const auto& parts : lists) out += (out.empty() ? "" : " or ") + parts_text(parts);
  return out;
}

}  // namespace motley
