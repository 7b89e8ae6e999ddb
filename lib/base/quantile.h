// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>

namespace motley {

// The value above `share` of the others: one of them, the lower where the place is between two. Reorders them; not empty.
inline double quantile(std::span<double> values, double share) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(static_cast<double>(values.size() - 1) * share);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace motley
