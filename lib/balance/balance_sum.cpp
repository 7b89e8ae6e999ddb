// SPDX-License-Identifier: Apache-2.0
#include "balance/balance_sum.h"

#include <motley/error.h>
#include <motley/partition.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "balance/dim_tables.h"

namespace motley {

namespace {

constexpr double kEnumerated = 1 << 18;  // cuts; if there are more, a local search runs from good starts, pair by pair

struct PartsFound {
  DimParts parts{};
  double seconds = kNever, total = kNever;  // makespans; sum over groups and ranks
};

bool better(const PartsFound& a, const PartsFound& b) {
  if (a.seconds != b.seconds) return a.seconds < b.seconds;
  if (a.total != b.total) return a.total < b.total;
  return a.parts > b.parts;
}

class SumSearch {
 public:
  SumSearch(const std::vector<SizeTables>& groups, Index size, const SumOptions& options)
      : groups_(groups), size_(size), options_(options), ranks_(groups.front().size()) {
    for (std::size_t r = 0; r < ranks_; r++) caps_.push_back(options.caps.empty() ? size : std::min(size, options.caps[r]));
  }

  DimBalance solve() {
    for (const DimParts& start : starts()) descend(start);
    bool exact = ranks_ <= 2;
    if (!exact && cuts(size_) <= kEnumerated) {
      enumerate(all_sizes());
      exact = true;
    } else if (!exact && !options_.steps.empty() && cuts_of_steps() <= kEnumerated) {
      enumerate(options_.steps);
      descend(DimParts(best_.parts));
    }
    if (!std::isfinite(best_.seconds))
      throw UserError("no cut of " + std::to_string(size_) +
                      " fits the devices: use a smaller batch, or give the devices more memory_bytes");
    if (options_.considered != nullptr) *options_.considered = considered_;
    DimBalance out{.parts = best_.parts, .seconds = best_.seconds, .next_best = next_.parts, .exact = exact};
    out.next_best_seconds = std::isfinite(next_.seconds) ? next_.seconds : 0;
    out.idle.assign(ranks_, 0);
    for (const SizeTables& g : groups_) {
      const double most = makespan(g, out.parts);
      for (std::size_t r = 0; r < ranks_; r++) out.idle[r] += most - g[r][entry(out.parts[r])];
    }
    return out;
  }

 private:
  // Number of cuts: binomial(units + ranks - 1, ranks - 1).
  double cuts(Index units) const {
    double n = 1;
    for (std::size_t r = 1; r < ranks_; r++) n = n * (static_cast<double>(units) + static_cast<double>(r)) / static_cast<double>(r);
    return n;
  }
  double cuts_of_steps() const { return std::pow(static_cast<double>(options_.steps.size() + 1), static_cast<double>(ranks_ - 1)); }
  DimParts all_sizes() const {
    DimParts out;
    for (Index k = 0; k <= size_; k++) out.push_back(k);
    return out;
  }

  std::vector<DimParts> starts() const {
    std::set<DimParts> out{Partition::even(size_, static_cast<int>(ranks_)).sizes()};
    SizeTables summed(ranks_, std::vector<double>(entry(size_) + 1, 0.0));
    for (const SizeTables& g : groups_)
      for (std::size_t r = 0; r < ranks_; r++)
        for (std::size_t k = 0; k < summed[r].size(); k++) summed[r][k] += g[r][k];
    out.insert(proportional_parts(summed, size_));
    out.insert(balance_dim(summed, size_, caps_).parts);  // UserError where the caps are too small
    for (const SizeTables& g : groups_) out.insert(balance_dim(g, size_, caps_).parts);
    for (std::size_t r = 0; r < ranks_; r++) {
      DimParts alone(ranks_, 0);
      alone[r] = size_;
      out.insert(alone);
    }
    return {out.begin(), out.end()};
  }

  void consider(const DimParts& parts) {
    double sum = 0, total = 0;
    for (std::size_t r = 0; r < ranks_; r++)
      if (parts[r] > caps_[r]) return;
    considered_++;
    for (const SizeTables& g : groups_) {
      sum += makespan(g, parts);
      for (std::size_t r = 0; r < ranks_; r++) total += g[r][entry(parts[r])];
    }
    if (!(sum <= next_.seconds)) return;
    if (!std::isfinite(sum)) return;
    const PartsFound c{parts, sum, total};
    if (better(c, best_)) {
      if (best_.seconds > c.seconds) next_ = best_;
      best_ = c;
    } else if (c.seconds > best_.seconds && better(c, next_)) {
      next_ = c;
    }
  }

  // Redistributes the units of every pair of ranks between the two until nothing gets better, or until a descent from another start
  // has gone on from here.
  void descend(DimParts parts) {
    consider(parts);
    for (bool moved = true; moved && passed_.insert(parts).second;) {
      moved = false;
      for (std::size_t i = 0; i < ranks_; i++)
        for (std::size_t j = i + 1; j < ranks_; j++) {
          const DimParts found = best_pair(parts, i, j);
          moved = moved || found != parts;
          parts = found;
        }
    }
  }

  DimParts best_pair(const DimParts& from, std::size_t i, std::size_t j) {
    const Index both = from[i] + from[j];
    std::vector<double> others(groups_.size(), 0.0), others_total(groups_.size(), 0.0);
    for (std::size_t g = 0; g < groups_.size(); g++)
      for (std::size_t r = 0; r < ranks_; r++)
        if (r != i && r != j) others[g] = std::max(others[g], groups_[g][r][entry(from[r])]);
    PartsFound best;
    for (Index k = std::max(Index{0}, both - caps_[j]); k <= std::min(both, caps_[i]); k++) {
      PartsFound c{from, 0, 0};
      c.parts[i] = k;
      c.parts[j] = both - k;
      for (std::size_t g = 0; g < groups_.size(); g++) {
        const double ti = groups_[g][i][entry(k)], tj = groups_[g][j][entry(both - k)];
        c.seconds += std::max({others[g], ti, tj});
        c.total += ti + tj;
      }
      if (std::isfinite(c.seconds) && better(c, best)) best = c;
      if (c.seconds <= next_.seconds) consider(c.parts);
    }
    return best.parts.empty() ? from : best.parts;
  }

  // Every cut whose parts but the last are among `sizes`; a branch is abandoned when its makespans so far exceed the runner-up's.
  void enumerate(const DimParts& sizes) {
    DimParts parts(ranks_, 0);
    branch(sizes, 0, size_, std::vector<double>(groups_.size(), 0.0), parts);
  }
  void branch(const DimParts& sizes, std::size_t r, Index left, const std::vector<double>& most, DimParts& parts) {
    if (r + 1 == ranks_) {
      parts[r] = left;
      return consider(parts);
    }
    std::vector<double> with(most.size());
    for (Index k : sizes) {
      if (k > left || k > caps_[r]) continue;
      double sum = 0;
      for (std::size_t g = 0; g < most.size(); g++) sum += with[g] = std::max(most[g], groups_[g][r][entry(k)]);
      if (!(sum <= next_.seconds)) continue;
      parts[r] = k;
      branch(sizes, r + 1, left - k, with, parts);
    }
  }

  const std::vector<SizeTables>& groups_;
  Index size_;
  const SumOptions& options_;
  std::size_t ranks_;
  DimParts caps_{};
  PartsFound best_{}, next_{};
  std::set<DimParts> passed_{};  // cuts from which a descent has moved units between every pair
  std::int64_t considered_ = 0;
};

}  // namespace

DimBalance balance_sum(const std::vector<SizeTables>& groups, Index size, const SumOptions& options) {
  check(!groups.empty() && !groups.front().empty(), "a sum has groups, a group has ranks");
  for (const SizeTables& g : groups) {
    check(g.size() == groups.front().size(), "every group has every rank");
    for (const auto& t : g) check(t.size() == entry(size) + 1, "a table has one entry per size 0..n");
  }
  check(options.caps.empty() || options.caps.size() == groups.front().size(), "one cap per rank");
  return SumSearch(groups, size, options).solve();
}

}  // namespace motley
