// SPDX-License-Identifier: Apache-2.0
#include "svm/shares.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "base/clock.h"
#include "mesh/control.h"

namespace motley::svm {

namespace {

constexpr Index kSteps = 12;  // sizes that are measured
constexpr int kLeastRounds = 5, kMostRounds = 50;
constexpr double kSeconds = 0.02;      // of one size's rounds, on the slowest rank; the lower quartile counts
constexpr Index kRowsAStep = 2;        // of an iteration without a cache
constexpr Index kUnits = 512;          // a share is a multiple of samples / kUnits
constexpr Index kLeastMeasured = 256;  // samples of one rank: fewer take as long as the messages

double lower_quartile(std::vector<double> values) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 4);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// An iteration's work on the first of these samples.
template <class T>
double seconds_of(Tools& tools, std::span<const Index> samples, RowSource<T>& source) {
  const auto n = static_cast<std::size_t>(padded(static_cast<Index>(samples.size())));
  std::vector<T> a(n), b(n);
  std::vector<double> f(n, 1.0), up(n, 0.0), low(n, 0.0), diagonal(n, 1.0), seconds;
  T* const rows[] = {a.data(), b.data()};
  source.use(samples);
  double all = 0;  // of the slowest rank
  for (int round = 0; round <= kLeastRounds || (round <= kMostRounds && all < kSeconds); round++) {
    const std::vector<double> last = tools.meeting.all(seconds.empty() ? 0.0 : seconds.back());
    all += *std::max_element(last.begin(), last.end());
    const double start = seconds_now();
    for (Index r = 0; r < kRowsAStep; r++) {
      const Index of[] = {samples[static_cast<std::size_t>(round + r) % samples.size()]};
      source.rows(of, std::span<T* const>(&rows[r], 1));
    }
    const auto size = static_cast<Index>(n);
    if constexpr (std::is_same_v<T, float>)
      static_cast<void>(tools.loops.step_f32(f.data(), a.data(), b.data(), 0.1, up.data(), low.data(), size));
    else
      static_cast<void>(tools.loops.step_f64(f.data(), a.data(), b.data(), 0.1, up.data(), low.data(), size));
    if (round > 0) seconds.push_back(seconds_now() - start);  // the first finds cold caches
  }
  return lower_quartile(std::move(seconds));
}

}  // namespace

double Staircase::at(Index samples) const {
  if (samples <= 0) return 0;
  const auto above = std::lower_bound(sizes.begin(), sizes.end(), samples);
  const auto i = static_cast<std::size_t>(above - sizes.begin());
  const auto part = [](Index a, Index b) { return static_cast<double>(a) / static_cast<double>(b); };
  if (i == sizes.size()) return seconds.back() * part(samples, sizes.back());
  if (i == 0) return seconds.front() * std::max(0.5, part(samples, sizes.front()));
  return seconds[i - 1] + (seconds[i] - seconds[i - 1]) * part(samples - sizes[i - 1], sizes[i] - sizes[i - 1]);
}

template <class T>
std::vector<Staircase> measured_staircases(Tools& tools, const std::vector<Index>& samples, RowSource<T>& source) {
  const auto n = static_cast<Index>(samples.size());
  std::vector<Staircase> out(static_cast<std::size_t>(tools.rt.ranks()));
  for (Index step = 1; step <= kSteps; step++) {
    const Index size = std::max<Index>(1, n * step / kSteps);
    const double mine = seconds_of(tools, std::span(samples).first(static_cast<std::size_t>(size)), source);
    const std::vector<double> all = tools.meeting.all(mine);
    for (std::size_t r = 0; r < out.size(); r++) {
      out[r].sizes.push_back(size);
      out[r].seconds.push_back(all[r]);
    }
  }
  for (Staircase& its : out)  // more samples do not take less: then the fewer ones were disturbed
    for (std::size_t k = its.seconds.size() - 1; k > 0; k--) its.seconds[k - 1] = std::min(its.seconds[k - 1], its.seconds[k]);
  return out;
}
template std::vector<Staircase> measured_staircases(Tools&, const std::vector<Index>&, RowSource<float>&);
template std::vector<Staircase> measured_staircases(Tools&, const std::vector<Index>&, RowSource<double>&);

Partition balanced(const std::vector<Staircase>& ranks, Index samples) {
  if (samples < kLeastMeasured) return Partition::even(samples, static_cast<int>(ranks.size()));
  const Index unit = (samples + kUnits - 1) / kUnits, units = (samples + unit - 1) / unit;
  SizeTables tables;
  for (const Staircase& its : ranks) {
    tables.emplace_back();
    for (Index k = 0; k <= units; k++) tables.back().push_back(its.at(k * unit));
  }
  std::vector<Index> parts = balance_dim(tables, units).parts;
  for (Index& part : parts) part *= unit;
  const auto largest = std::max_element(parts.begin(), parts.end());
  *largest -= units * unit - samples;
  return Partition::of(parts);
}

Shares dealt(Index size, const Partition& proportions) {
  std::vector<Index> ids(static_cast<std::size_t>(size));
  std::iota(ids.begin(), ids.end(), Index{0});
  std::mt19937_64 random(1);
  for (std::size_t k = ids.size(); k > 1; k--) std::swap(ids[k - 1], ids[random() % k]);
  std::vector<double> shares;
  for (const Index part : proportions.sizes()) shares.push_back(static_cast<double>(part));
  const Partition parts = size == proportions.size() ? proportions : Partition::proportional(size, shares);
  Shares out;
  for (int r = 0; r < parts.parts(); r++) {
    const Range range = parts.range(r);
    out.emplace_back(ids.begin() + range.begin, ids.begin() + range.end);
    std::sort(out.back().begin(), out.back().end());
  }
  return out;
}

}  // namespace motley::svm
