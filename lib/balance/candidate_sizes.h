// SPDX-License-Identifier: Apache-2.0
// Which sizes of a dim to measure, and what is assumed between them.
#pragma once
#include <motley/dims.h>

#include <utility>
#include <vector>

namespace motley {

// Sizes 1..size, ascending, at most `most` (0: no limit, at least 1). In order of importance: the whole size, multiples of 16, of
// 8, the small sizes 1 2 4, then one past each granule (17, 33, ...; 9, 25, ...), which shows where the steps are. A group that
// does not fit completely is thinned evenly.
std::vector<Index> candidate_sizes(Index size, Index most = 0);

// Sizes 1..size at most `reach` from `part`: added by a second measurement around the first one's best cut, where a kernel has no
// granule or another one (backward-data channels last is smooth in its filters).
std::vector<Index> sizes_near(Index part, Index size, Index reach = 8);

// Seconds per size 0..size from measured points (ascending, the last one `size` or more): those of the next point that is not
// smaller. A size that was measured has its measured seconds, even where a larger one is faster: no rank computes more than its
// part. seconds(0) = 0.
std::vector<double> step_table(const std::vector<std::pair<Index, double>>& points, Index size);

}  // namespace motley
