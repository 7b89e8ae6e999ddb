// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/dims.h>

#include <algorithm>

namespace motley {

// Whether an element is in both boxes of one tensor.
inline bool overlaps(const Box& a, const Box& b) {
  for (std::size_t d = 0; d < a.size(); d++)
    if (std::max(a[d].begin, b[d].begin) >= std::min(a[d].end, b[d].end)) return false;
  return true;
}

}  // namespace motley
