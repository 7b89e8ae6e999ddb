// SPDX-License-Identifier: Apache-2.0
// Which sizes of a dim are worth measuring, and what is between them.
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

// seconds per size 0..size from measured points (ascending, the last one `size` or more): the next point not below. A size that was
// measured costs what was measured, also where a larger one is faster: no one computes more than its part. seconds(0) = 0.
std::vector<double> step_table(const std::vector<std::pair<Index, double>>& points, Index size);

}  // namespace motley
