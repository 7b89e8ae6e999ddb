// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/dims.h>

#include <algorithm>

namespace motley::cpu {

// Least elements for several threads: about 10 us of memory traffic, against 1-2 us to wake a team.
inline constexpr Index kElementsWorthAThread = 32768;

// Calls part(i, begin, end) for even parts of 0..units-1, one per thread of the calling thread's OpenMP team; i < threads.
template <class Part>
void for_numbered_parts(int threads, Index units, Part&& part) {
  const int parts = static_cast<int>(std::min<Index>(threads, units));
  if (parts <= 1) {
    if (units > 0) part(0, Index{0}, units);
    return;
  }
#pragma omp parallel for num_threads(parts) schedule(static, 1)
  for (int i = 0; i < parts; i++) part(i, units * i / parts, units * (i + 1) / parts);
}

template <class Part>
void for_parts(int threads, Index units, Part&& part) {
  for_numbered_parts(threads, units, [&](int, Index begin, Index end) { part(begin, end); });
}

}  // namespace motley::cpu
