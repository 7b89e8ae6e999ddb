// SPDX-License-Identifier: Apache-2.0
#include "svm/shares.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "base/clock.h"
#include "profiler/run_clock.h"
#include "svm/kernel_sums.h"

namespace motley::svm {

namespace {

constexpr Index kSteps = 12;  // sizes that are measured
constexpr int kLeastRounds = 3, kMostRounds = 12;
constexpr double kBudgetSeconds = 1.5;  // for rounds beyond the least, on the slowest rank
constexpr int kRepeats = 3;             // in a visit of one size; the fastest counts, and over the rounds the lower quartile
constexpr int kStepsABatch = 6;         // steps to one batch of rows: what rows the cache lacks (bench/svm)
constexpr Index kUnits = 512;           // a share is a multiple of samples / kUnits
constexpr Index kLeastMeasured = 256;   // samples of one rank: fewer take as long as the messages
constexpr Index kCheckVectors = 64, kCheckSamples = 256;

double lower_quartile(std::vector<double> values) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 4);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// The fastest of some runs of the work; where the core was taken away from a run on one thread, its processor time.
template <class Work>
double fastest(const Tools& tools, Work&& work) {
  double out = std::numeric_limits<double>::infinity();
  for (int i = 0; i <= kRepeats; i++) {
    const RunClock clock;
    work();
    const RunTime time = clock.stop();
    if (i > 0) out = std::min(out, time.lost_core && tools.threads == 1 ? time.cpu : time.wall);  // the first finds cold caches
  }
  return out;
}

// Seconds of a batch of rows and the steps that follow, on the first of these samples.
template <class T>
double seconds_of(Tools& tools, std::span<const Index> samples, RowSource<T>& source) {
  const auto n = static_cast<std::size_t>(padded(static_cast<Index>(samples.size())));
  const std::size_t batch = std::min(static_cast<std::size_t>(source.batch()), samples.size());
  std::vector<T> values(n * batch);
  std::vector<T*> rows;
  for (std::size_t q = 0; q < batch; q++) rows.push_back(values.data() + q * n);
  std::vector<double> f(n, 1.0), up(n, 0.0), low(n, 0.0);
  source.use(samples);
  static_cast<void>(tools.meeting.all(0));  // all ranks measure at the same time
  return fastest(tools, [&] {
    source.rows(samples.first(batch), rows);
    const auto size = static_cast<Index>(n);
    for (int step = 0; step < kStepsABatch; step++)
      if constexpr (std::is_same_v<T, float>)
        static_cast<void>(tools.loops.step_f32(f.data(), rows[0], rows[batch - 1], 0.1, up.data(), low.data(), size));
      else
        static_cast<void>(tools.loops.step_f64(f.data(), rows[0], rows[batch - 1], 0.1, up.data(), low.data(), size));
  });
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
  const auto ranks = static_cast<std::size_t>(tools.rt.ranks());
  std::vector<Index> sizes;
  for (Index step = 1; step <= kSteps; step++)
    if (const Index size = static_cast<Index>(samples.size()) * step / kSteps; size > (sizes.empty() ? 0 : sizes.back()))
      sizes.push_back(size);
  std::vector<std::vector<std::vector<double>>> seconds(ranks, std::vector<std::vector<double>>(sizes.size()));
  const double start = seconds_now();
  for (int round = 0; round < kMostRounds; round++) {
    const std::vector<double> spent = tools.meeting.all(seconds_now() - start);
    if (round >= kLeastRounds && *std::max_element(spent.begin(), spent.end()) > kBudgetSeconds) break;
    for (std::size_t k = 0; k < sizes.size(); k++) {
      const std::vector<double> all =
          tools.meeting.all(seconds_of(tools, std::span(samples).first(static_cast<std::size_t>(sizes[k])), source));
      for (std::size_t r = 0; r < ranks; r++) seconds[r][k].push_back(all[r]);
    }
  }
  std::vector<Staircase> out;
  for (auto& its : seconds) {
    out.push_back({sizes, {}});
    for (auto& of_size : its) out.back().seconds.push_back(lower_quartile(std::move(of_size)));
    std::vector<double>& of = out.back().seconds;  // more samples do not take less: then the fewer ones were disturbed
    for (std::size_t k = of.size() - 1; k > 0; k--) of[k - 1] = std::min(of[k - 1], of[k]);
  }
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

std::vector<double> measured_check_speeds(Tools& tools, const std::vector<Index>& samples) {
  const auto first = [&](Index count) {
    return std::span(samples).first(std::min(static_cast<std::size_t>(count), samples.size()));
  };
  const std::vector<double> coefficients(first(kCheckVectors).size(), 0.5);
  std::vector<double> sums(first(kCheckSamples).size());
  static_cast<void>(tools.meeting.all(0));
  const double mine = fastest(tools, [&] {
    KernelSums(tools.loops, tools.threads)
        .add(tools.samples, first(kCheckVectors), coefficients, 1, tools.samples, first(kCheckSamples), sums);
  });
  std::vector<double> out = tools.meeting.all(mine);
  for (double& seconds : out) seconds = 1 / std::max(seconds, 1e-9);
  return out;
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
