// SPDX-License-Identifier: Apache-2.0
// Samples that cannot be read, found by reading all of them.
#pragma once
#include <motley/data.h>

#include <functional>
#include <string>
#include <vector>

namespace motley {

struct Unreadable {
  Index sample = 0;
  std::string why{};
};

// Calls read(sample) for first, first + step, ... below `end`, on this thread and one more for each of the cores, and returns the
// samples for which it threw a data error, in order. Other errors are thrown.
std::vector<Unreadable> unreadable(Range samples, Index step, const std::function<void(Index)>& read,
                                   const std::vector<int>& cores);

// Reads a sample completely: its values, its labels and its further inputs.
void read_whole(const Dataset& data, Index sample);

}  // namespace motley
