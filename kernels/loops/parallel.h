// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/dims.h>

#include <algorithm>

namespace motley::cpu {

// Calls part(begin, end) for even parts of 0..units-1, one per thread of the calling thread's OpenMP team.
template <class Part>
void for_parts(int threads, Index units, Part&& part) {
  const int parts = static_cast<int>(std::min<Index>(threads, units));
  if (parts <= 1) {
    if (units > 0) part(Index{0}, units);
    return;
  }
#pragma omp parallel for num_threads(parts) schedule(static, 1)
  for (int i = 0; i < parts; i++) part(units * i / parts, units * (i + 1) / parts);
}

}  // namespace motley::cpu
