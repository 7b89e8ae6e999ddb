// SPDX-License-Identifier: Apache-2.0
#include <motley/balance_dim.h>
#include <motley/error.h>
#include <motley/partition.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "balance/dim_tables.h"

namespace motley {

namespace {

void require_tables(const SizeTables& seconds, Index size) {
  if (seconds.empty()) throw UserError("a dim is distributed over at least one rank: there is no table of seconds");
  if (size < 0) throw UserError("a dim of " + std::to_string(size) + " units; expected at least 0");
  for (const auto& table : seconds) {
    if (std::any_of(table.begin(), table.end(), [](double s) { return s < 0; }))
      throw UserError("a table has less than 0 seconds; expected at least 0, or infinity for a size that cannot be computed");
    if (table.size() != entry(size) + 1)
      throw UserError("a table has the seconds of " + std::to_string(table.size()) + " sizes; expected those of 0 to " +
                      std::to_string(size) + " units");
  }
}

// The tables, checked, with sizes past the cap and sizes that cannot be computed set to +infinity.
SizeTables usable(const SizeTables& seconds, Index size, const DimParts& caps) {
  require_tables(seconds, size);
  if (!caps.empty() && caps.size() != seconds.size())
    throw UserError(std::to_string(caps.size()) + " caps for " + std::to_string(seconds.size()) +
                    " ranks; expected one for each, or none");
  SizeTables out = seconds;
  for (std::size_t r = 0; r < out.size(); r++) {
    if (!caps.empty() && caps[r] < 0) throw UserError("a cap of " + std::to_string(caps[r]) + " units; expected at least 0");
    for (std::size_t k = 0; k < out[r].size(); k++) {
      const bool fits = caps.empty() || static_cast<Index>(k) <= caps[r];
      if (!fits || !std::isfinite(out[r][k])) out[r][k] = kNever;
    }
  }
  return out;
}

// Is there a cut in which every rank takes at most T seconds?
class Feasible {
 public:
  Feasible(const SizeTables& seconds, Index size) : seconds_(seconds), size_(size) {
    for (const auto& t : seconds) monotone_ = monotone_ && std::is_sorted(t.begin(), t.end());
  }
  bool operator()(double t) const { return monotone_ ? by_largest_parts(t) : by_subset_sums(t); }

 private:
  bool by_largest_parts(double t) const {
    Index sum = 0;
    for (const auto& table : seconds_) {
      const auto fit = std::upper_bound(table.begin(), table.end(), t) - table.begin();
      if (fit == 0) return false;
      sum += fit - 1;
    }
    return sum >= size_;
  }
  // Bit m of `reached`: the ranks so far can together take m units.
  bool by_subset_sums(double t) const {
    const std::size_t words = entry(size_) / 64 + 1;
    std::vector<std::uint64_t> reached(words, 0), next(words);
    reached[0] = 1;
    for (const auto& table : seconds_) {
      std::fill(next.begin(), next.end(), 0);
      for (std::size_t k = 0; k < table.size(); k++)
        if (table[k] <= t) or_shifted(next, reached, k);
      reached.swap(next);
    }
    return (reached[entry(size_) / 64] >> (entry(size_) % 64) & 1) != 0;
  }
  static void or_shifted(std::vector<std::uint64_t>& to, const std::vector<std::uint64_t>& from, std::size_t by) {
    const std::size_t word = by / 64, bit = by % 64;
    for (std::size_t i = to.size(); i-- > word;) {
      to[i] |= from[i - word] << bit;
      if (bit != 0 && i > word) to[i] |= from[i - word - 1] >> (64 - bit);
    }
  }

  const SizeTables& seconds_;
  Index size_;
  bool monotone_ = true;
};

// The cut over these allowed sizes (per rank, ascending) with the least sum of seconds; ties (to 1e-12) go to the lexicographically
// greatest. least[r][m - first[r]]: the least sum of ranks r.. for m units. Only those m are visited from which the ranks before
// and after can still make `size`: p s^2 for a surplus of s units.
std::optional<DimParts> least_total(const SizeTables& seconds, const std::vector<DimParts>& allowed, Index size) {
  const std::size_t ranks = seconds.size();
  std::vector<Index> before_most(ranks + 1, 0), before_least(ranks + 1, 0), after_most(ranks + 1, 0), after_least(ranks + 1, 0);
  for (std::size_t r = 0; r < ranks; r++) {
    if (allowed[r].empty()) return std::nullopt;
    before_most[r + 1] = before_most[r] + allowed[r].back();
    before_least[r + 1] = before_least[r] + allowed[r].front();
  }
  for (std::size_t r = ranks; r-- > 0;) {
    after_most[r] = after_most[r + 1] + allowed[r].back();
    after_least[r] = after_least[r + 1] + allowed[r].front();
  }
  std::vector<Index> first(ranks + 1);
  std::vector<std::vector<double>> least(ranks + 1);
  for (std::size_t r = 0; r <= ranks; r++) {
    first[r] = std::max(after_least[r], size - before_most[r]);
    const Index last = std::min(after_most[r], size - before_least[r]);
    if (last < first[r]) return std::nullopt;
    least[r].assign(entry(last - first[r]) + 1, kNever);
  }
  least[ranks][0] = 0;
  auto total = [&](std::size_t r, Index m, Index k) {
    const Index rest = m - k - first[r + 1];
    if (rest < 0 || rest >= static_cast<Index>(least[r + 1].size())) return kNever;
    return seconds[r][entry(k)] + least[r + 1][entry(rest)];
  };
  for (std::size_t r = ranks; r-- > 0;)
    for (std::size_t i = 0; i < least[r].size(); i++) {
      const Index m = first[r] + static_cast<Index>(i);
      // k with first[r+1] <= m - k <= last[r+1]
      const Index low = m - first[r + 1] - static_cast<Index>(least[r + 1].size()) + 1;
      for (auto k = std::lower_bound(allowed[r].begin(), allowed[r].end(), low); k != allowed[r].end() && *k <= m - first[r + 1];
           ++k)
        least[r][i] = std::min(least[r][i], total(r, m, *k));
    }
  if (!std::isfinite(least[0][0])) return std::nullopt;
  DimParts parts;
  Index m = size;
  for (std::size_t r = 0; r < ranks; r++) {
    const double goal = least[r][entry(m - first[r])] * (1 + 1e-12);
    const auto k = std::find_if(allowed[r].rbegin(), allowed[r].rend(), [&](Index x) { return total(r, m, x) <= goal; });
    parts.push_back(*k);
    m -= *k;
  }
  return parts;
}

std::vector<DimParts> not_above(const SizeTables& seconds, double t) {
  std::vector<DimParts> out(seconds.size());
  for (std::size_t r = 0; r < seconds.size(); r++)
    for (std::size_t k = 0; k < seconds[r].size(); k++)
      if (seconds[r][k] <= t) out[r].push_back(static_cast<Index>(k));
  return out;
}

// The best cut whose slowest rank takes exactly t.
std::optional<DimParts> cut_of(const SizeTables& seconds, Index size, double t) {
  std::optional<DimParts> best;
  double best_sum = kNever;
  const std::vector<DimParts> within = not_above(seconds, t);
  for (std::size_t r = 0; r < seconds.size(); r++) {
    std::vector<DimParts> allowed = within;
    std::erase_if(allowed[r], [&](Index k) { return seconds[r][entry(k)] < t; });
    const auto parts = least_total(seconds, allowed, size);
    if (!parts) continue;
    double sum = 0;
    for (std::size_t i = 0; i < parts->size(); i++) sum += seconds[i][entry((*parts)[i])];
    if (sum < best_sum) {
      best_sum = sum;
      best = parts;
    }
  }
  return best;
}

// The seconds of all sizes that a cut can have if the other ranks take at most their largest sizes, ascending.
std::vector<double> candidate_times(const SizeTables& seconds, Index size) {
  std::vector<Index> most;
  for (const auto& t : seconds) {
    Index k = size;
    while (k > 0 && !std::isfinite(t[entry(k)])) k--;
    most.push_back(k);
  }
  const Index all = std::accumulate(most.begin(), most.end(), Index{0});
  std::vector<double> times;
  for (std::size_t r = 0; r < seconds.size(); r++)
    for (Index k = std::max(Index{0}, size - (all - most[r])); k <= most[r]; k++)
      if (std::isfinite(seconds[r][entry(k)])) times.push_back(seconds[r][entry(k)]);
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  return times;
}

[[noreturn]] void refuse(const SizeTables& seconds, Index size) {
  Index held = 0;
  for (const auto& t : seconds) {
    Index most = 0;
    for (std::size_t k = 0; k < t.size(); k++)
      if (std::isfinite(t[k])) most = static_cast<Index>(k);
    held += most;
  }
  throw UserError("no cut of " + std::to_string(size) + " fits: the devices' memory and kernels allow at most " +
                  std::to_string(held) + "; use a smaller batch, or give the devices more memory_bytes");
}

}  // namespace

double makespan(const SizeTables& seconds, const std::vector<Index>& parts) {
  if (parts.size() != seconds.size())
    throw UserError(std::to_string(parts.size()) + " parts for " + std::to_string(seconds.size()) + " ranks");
  for (std::size_t r = 0; r < parts.size(); r++)
    if (parts[r] < 0 || entry(parts[r]) >= seconds[r].size())
      throw UserError("a part of " + std::to_string(parts[r]) + " units, for which its table has no seconds");
  double most = 0;
  for (std::size_t r = 0; r < parts.size(); r++) most = std::max(most, seconds[r][entry(parts[r])]);
  return most;
}

DimBalance balance_dim(const SizeTables& seconds, Index size, const std::vector<Index>& caps) {
  const SizeTables t = usable(seconds, size, caps);
  const std::vector<double> times = candidate_times(t, size);
  const Feasible feasible(t, size);
  const auto threshold = std::partition_point(times.begin(), times.end(), [&](double s) { return !feasible(s); });
  if (threshold == times.end()) refuse(t, size);

  DimBalance out;
  out.parts = *least_total(t, not_above(t, *threshold), size);
  out.seconds = makespan(t, out.parts);
  for (std::size_t r = 0; r < t.size(); r++) out.idle.push_back(out.seconds - t[r][entry(out.parts[r])]);
  for (auto next = threshold + 1; next != times.end() && out.next_best.empty(); ++next)
    if (const auto parts = cut_of(t, size, *next)) {
      out.next_best = *parts;
      out.next_best_seconds = *next;
    }
  return out;
}

std::vector<Index> proportional_parts(const SizeTables& seconds, Index size) {
  require_tables(seconds, size);
  std::vector<double> speeds;
  for (const auto& t : seconds) {
    const double whole = t[entry(size)];
    speeds.push_back(std::isfinite(whole) && whole > 0 ? static_cast<double>(size) / whole : 0);
  }
  if (std::all_of(speeds.begin(), speeds.end(), [](double s) { return s <= 0; }))
    return Partition::even(size, static_cast<int>(seconds.size())).sizes();
  return Partition::proportional(size, speeds).sizes();
}

}  // namespace motley
