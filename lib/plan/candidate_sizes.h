// SPDX-License-Identifier: Apache-2.0
// Which sizes of a dim are worth measuring, and on which granule a device works.
#pragma once
#include <motley/dims.h>

#include <utility>
#include <vector>

namespace motley {

// Sizes 1..size, ascending, at most `most` (0: no limit, at least 1): in this order of importance the whole size, multiples of
// 16, of 8, the small sizes 1 2 4, then one past each granule (17, 33, ...; 9, 25, ...), which shows where the steps are. A kind
// that does not fit whole is thinned evenly.
std::vector<Index> candidate_sizes(Index size, Index most = 0);

// Sizes 1..size at most `reach` from `part`: what a second measurement adds around the first one's best cut, where a kernel has no
// granule or another one (backward-data channels last is smooth in its filters).
std::vector<Index> sizes_near(Index part, Index size, Index reach = 8);

// The greatest common divisor of the sizes k with a step between k and k + 1, seconds(k+1)/seconds(k) > 1 + max(0.05, 3 * noise),
// on a device that computes a larger slice where that is faster (padding closure). points: (size, seconds), ascending; only
// neighbours one apart tell. 1: steps everywhere; 0: no step seen.
Index granule_of(std::vector<std::pair<Index, double>> points, double noise = 0.01);

// seconds per size 0..size from measured points (ascending, the last one `size` or more): the least of the points not below, which
// is what a device can do that computes a larger slice and drops the surplus. seconds(0) = 0.
std::vector<double> step_table(const std::vector<std::pair<Index, double>>& points, Index size);

}  // namespace motley
