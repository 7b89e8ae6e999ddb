// SPDX-License-Identifier: Apache-2.0
#include "balance/candidate_sizes.h"

#include <motley/error.h>

#include <algorithm>
#include <set>

#include "base/at.h"

namespace motley {

std::vector<Index> candidate_sizes(Index size, Index most) {
  std::vector<std::vector<Index>> kinds(5);
  kinds[0] = {size};
  for (Index k = 16; k <= size; k += 16) kinds[1].push_back(k);
  for (Index k = 8; k <= size; k += 16) kinds[2].push_back(k);
  kinds[3] = {1, 2, 4};
  for (Index k = 8; k < size; k += 8) kinds[4].push_back(k + 1);
  std::set<Index> out;
  for (auto& kind : kinds) {
    std::erase_if(kind, [&](Index k) { return k < 1 || k > size || out.contains(k); });
    const std::size_t room = most <= 0 ? kind.size() : static_cast<std::size_t>(most) - out.size();
    const std::size_t take = std::min(room, kind.size());
    for (std::size_t i = 0; i < take; i++) out.insert(kind[(2 * i + 1) * kind.size() / (2 * take)]);
  }
  return {out.begin(), out.end()};
}

std::vector<Index> sizes_near(Index part, Index size, Index reach) {
  std::vector<Index> out;
  for (Index k = std::max(Index{1}, part - reach); k <= std::min(size, part + reach); k++) out.push_back(k);
  return out;
}

std::vector<double> step_table(const std::vector<std::pair<Index, double>>& points, Index size) {
  check(size == 0 || (!points.empty() && points.back().first >= size), "the whole size was measured");
  std::vector<double> out(static_cast<std::size_t>(size) + 1, 0.0);
  std::size_t next = 0;
  for (Index k = 1; k <= size; k++) {
    while (points[next].first < k) next++;
    at(out, k) = points[next].second;
  }
  return out;
}

}  // namespace motley
