// SPDX-License-Identifier: Apache-2.0
// Shared by the searches over tables of seconds (balance_dim.h).
#pragma once
#include <motley/dims.h>

#include <cstddef>
#include <limits>
#include <vector>

namespace motley {

inline constexpr double kNever = std::numeric_limits<double>::infinity();  // seconds of what cannot be computed
using DimParts = std::vector<Index>;                                       // per rank, of one dim

// Where a table has the seconds of this many units.
inline std::size_t entry(Index units) {
  return static_cast<std::size_t>(units);
}

}  // namespace motley
