// SPDX-License-Identifier: Apache-2.0
#include "plan/candidate_sizes.h"

#include <motley/error.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

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

Index granule_of(std::vector<std::pair<Index, double>> points, double noise) {
  for (std::size_t i = points.size(); i-- > 1;) points[i - 1].second = std::min(points[i - 1].second, points[i].second);
  const double step = 1 + std::max(0.05, 3 * noise);
  Index granule = 0;
  for (std::size_t i = 1; i < points.size(); i++) {
    const auto& [k, before] = points[i - 1];
    const auto& [next, after] = points[i];
    if (next == k + 1 && k > 0 && after > before * step) granule = std::gcd(granule, k);
  }
  return granule;
}

std::vector<double> step_table(const std::vector<std::pair<Index, double>>& points, Index size) {
  check(size == 0 || (!points.empty() && points.back().first >= size), "the whole size was measured");
  std::vector<double> out(static_cast<std::size_t>(size) + 1, 0.0);
  double least = HUGE_VAL;
  for (std::size_t i = points.size(); i-- > 0;) {
    least = std::min(least, points[i].second);
    const Index from = i == 0 ? 0 : points[i - 1].first;
    for (Index k = std::max(Index{1}, from + 1); k <= std::min(size, points[i].first); k++)
      out[static_cast<std::size_t>(k)] = least;
  }
  return out;
}

}  // namespace motley
