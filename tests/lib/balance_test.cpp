// SPDX-License-Identifier: Apache-2.0
// The exact solvers against brute force, and on measured staircases.
#include <motley/balance_dim.h>
#include <motley/error.h>
#include <motley/partition.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

#include "balance/balance_sum.h"
#include "balance/candidate_sizes.h"
#include "tests/lib/measured_tables.h"

using namespace motley;

namespace {

using Parts = std::vector<Index>;
constexpr double kNever = std::numeric_limits<double>::infinity();

void each_cut(Index size, std::size_t ranks, const std::function<void(const Parts&)>& visit) {
  Parts parts(ranks, 0);
  std::function<void(std::size_t, Index)> deal = [&](std::size_t r, Index left) {
    if (r + 1 == ranks) {
      parts[r] = left;
      visit(parts);
      return;
    }
    for (Index k = 0; k <= left; k++) {
      parts[r] = k;
      deal(r + 1, left - k);
    }
  };
  deal(0, size);
}

double sum_of(const SizeTables& t, const Parts& parts) {
  double sum = 0;
  for (std::size_t r = 0; r < parts.size(); r++) sum += t[r][static_cast<std::size_t>(parts[r])];
  return sum;
}

enum class Kind { linear, stairs, any, holes, few };

// Small integers as seconds: sums are exact, ties are many.
std::vector<double> random_table(std::mt19937& random, Index size, Kind shape) {
  std::vector<double> t(static_cast<std::size_t>(size) + 1, 0.0);
  const int speed = std::uniform_int_distribution(1, 9)(random), granule = std::uniform_int_distribution(1, 5)(random);
  for (Index k = 1; k <= size; k++) {
    double& s = t[static_cast<std::size_t>(k)];
    if (shape == Kind::linear)
      s = static_cast<double>(speed * k);
    else if (shape == Kind::stairs)
      s = static_cast<double>(speed * ((k + granule - 1) / granule));
    else
      s = std::uniform_int_distribution(1, shape == Kind::few ? 3 : 40)(random);
    if (shape == Kind::holes && std::uniform_int_distribution(0, 5)(random) == 0) s = kNever;
  }
  return t;
}

// `at` of 1..128 filters as a table over 0..size, in ms.
std::vector<double> whole_table(const std::vector<double>& ms, Index size) {
  std::vector<double> t{0.0};
  t.insert(t.end(), ms.begin(), ms.begin() + size);
  return t;
}

std::vector<std::pair<Index, double>> pick(const std::vector<double>& ms, const Parts& sizes) {
  std::vector<std::pair<Index, double>> out;
  for (Index k : sizes) out.emplace_back(k, ms[static_cast<std::size_t>(k) - 1]);
  return out;
}

// Only granule sizes are known to the solver; its cut is timed on the whole table, as is the best cut.
double found_over_best(const std::vector<const std::vector<double>*>& devices, Index size) {
  SizeTables whole, known;
  Parts sizes = candidate_sizes(size);
  std::erase_if(sizes, [&](Index k) { return k % 8 != 0 && k != size; });
  for (const auto* d : devices) {
    whole.push_back(whole_table(*d, size));
    known.push_back(step_table(pick(*d, sizes), size));
  }
  return makespan(whole, balance_dim(known, size).parts) / balance_dim(whole, size).seconds;
}

}  // namespace

TEST_CASE("balance_dim equals brute force, monotone tables or not", "[balance]") {
  std::mt19937 random(7);
  for (int n = 0; n < 10000; n++) {
    const auto ranks = static_cast<std::size_t>(std::uniform_int_distribution(1, 4)(random));
    const Index size = std::uniform_int_distribution(0, ranks == 4 ? 9 : 14)(random);
    SizeTables t;
    Parts caps;
    for (std::size_t r = 0; r < ranks; r++) {
      t.push_back(random_table(random, size, static_cast<Kind>(std::uniform_int_distribution(0, 4)(random))));
      caps.push_back(std::uniform_int_distribution<Index>(size / 2, size)(random));
    }
    if (n % 2 == 0) caps.clear();
    double best = kNever, second = kNever, least_sum = kNever;
    Parts winner;
    each_cut(size, ranks, [&](const Parts& p) {
      for (std::size_t r = 0; r < caps.size(); r++)
        if (p[r] > caps[r]) return;
      const double m = makespan(t, p), sum = sum_of(t, p);
      if (!std::isfinite(m)) return;
      if (m < best) {
        second = best;
        least_sum = kNever;
        best = m;
      } else if (m > best) {
        second = std::min(second, m);
      }
      if (m == best && sum <= least_sum) {  // visited in ascending order: the last of equals is the greatest
        least_sum = sum;
        winner = p;
      }
    });
    if (!std::isfinite(best)) {
      CHECK_THROWS_AS(balance_dim(t, size, caps), UserError);
      continue;
    }
    const DimBalance found = balance_dim(t, size, caps);
    CHECK(found.parts == winner);
    CHECK(found.seconds == best);
    CHECK(found.next_best.empty() == !std::isfinite(second));
    if (std::isfinite(second)) {
      CHECK(found.next_best_seconds == second);
      CHECK(makespan(t, found.next_best) == second);
      CHECK(std::accumulate(found.next_best.begin(), found.next_best.end(), Index{0}) == size);
    }
    for (std::size_t r = 0; r < ranks; r++) CHECK(found.idle[r] == best - t[r][static_cast<std::size_t>(winner[r])]);
  }
}

TEST_CASE("balance_sum equals brute force on up to three ranks", "[balance]") {
  std::mt19937 random(11);
  for (int n = 0; n < 2000; n++) {
    const auto ranks = static_cast<std::size_t>(std::uniform_int_distribution(1, 3)(random));
    const Index size = std::uniform_int_distribution(0, 12)(random);
    std::vector<SizeTables> groups(static_cast<std::size_t>(std::uniform_int_distribution(1, 4)(random)));
    for (auto& g : groups)
      for (std::size_t r = 0; r < ranks; r++)
        g.push_back(random_table(random, size, static_cast<Kind>(std::uniform_int_distribution(0, 4)(random))));
    auto cost = [&](const Parts& p) {
      double sum = 0;
      for (const auto& g : groups) sum += makespan(g, p);
      return sum;
    };
    double best = kNever, second = kNever;
    each_cut(size, ranks, [&](const Parts& p) {
      const double c = cost(p);
      if (c < best)
        second = best;
      else if (c > best)
        second = std::min(second, c);
      best = std::min(best, c);
    });
    if (!std::isfinite(best)) {
      CHECK_THROWS_AS(balance_sum(groups, size), UserError);
      continue;
    }
    const DimBalance found = balance_sum(groups, size);
    CHECK(found.exact);
    CHECK(found.seconds == best);
    CHECK(cost(found.parts) == best);
    if (std::isfinite(second)) CHECK(found.next_best_seconds == second);
  }
}

TEST_CASE("balance_sum on many ranks is never worse than its starts", "[balance]") {
  std::mt19937 random(3);
  for (int n = 0; n < 5; n++) {
    const std::size_t ranks = 8;
    const Index size = 96;
    std::vector<SizeTables> groups(3);
    SizeTables summed(ranks, std::vector<double>(97, 0.0));
    for (auto& g : groups)
      for (std::size_t r = 0; r < ranks; r++) {
        g.push_back(random_table(random, size, Kind::stairs));
        for (std::size_t k = 0; k < 97; k++) summed[r][k] += g[r][k];
      }
    auto cost = [&](const Parts& p) { return makespan(groups[0], p) + makespan(groups[1], p) + makespan(groups[2], p); };
    const DimBalance found = balance_sum(groups, size);
    CHECK_FALSE(found.exact);
    CHECK(found.seconds == cost(found.parts));
    CHECK(std::accumulate(found.parts.begin(), found.parts.end(), Index{0}) == size);
    for (const Parts& p : {Partition::even(size, 8).sizes(), proportional_parts(summed, size), balance_dim(summed, size).parts})
      CHECK(found.seconds <= cost(p));
  }
}

TEST_CASE("of a cut that is slower than the runner-up, balance_sum sums the seconds of two ranks alone", "[balance]") {
  std::mt19937 random(4);
  const Index size = 512;
  std::vector<SizeTables> groups(40);
  for (auto& g : groups)
    for (int r = 0; r < 8; r++) g.push_back(random_table(random, size, Kind::stairs));
  std::int64_t considered = 0;
  balance_sum(groups, size, {.considered = &considered});
  CHECK(considered > 0);
  CHECK(considered < 2400);
}

TEST_CASE("one group: the sum is the dim", "[balance]") {
  std::mt19937 random(5);
  for (int n = 0; n < 300; n++) {
    SizeTables t;
    for (int r = 0; r < 3; r++) t.push_back(random_table(random, 20, static_cast<Kind>(n % 5)));
    if (n % 5 == 3) t[0] = random_table(random, 20, Kind::linear);  // without holes: there is a cut
    CHECK(balance_sum({t}, 20).parts == balance_dim(t, 20).parts);
  }
}

TEST_CASE("memory caps that hold too little are refused", "[balance]") {
  const SizeTables t{{0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}};
  CHECK(balance_dim(t, 4, {1, 4}).parts == Parts{1, 3});
  CHECK_THROWS_WITH(balance_dim(t, 4, {1, 2}), Catch::Contains("no cut of 4 fits") && Catch::Contains("at most 3"));
  CHECK_THROWS_AS(balance_sum({t}, 4, {.caps = {1, 2}}), UserError);
}

TEST_CASE("tables between points: the next one not below, faster or not", "[balance]") {
  CHECK(step_table({{2, 3.0}, {4, 2.0}, {5, 9.0}}, 5) == std::vector<double>{0, 3, 3, 2, 2, 9});
  CHECK(step_table({{1, 3.0}, {8, 4.0}}, 5) == std::vector<double>{0, 3, 4, 4, 4, 4});
  CHECK(step_table({}, 0) == std::vector<double>{0});
}

TEST_CASE("candidate sizes: the whole, granules, small ones, one past each granule", "[balance]") {
  CHECK(candidate_sizes(20) == Parts{1, 2, 4, 8, 9, 16, 17, 20});
  CHECK(candidate_sizes(1) == Parts{1});
  CHECK(candidate_sizes(128, 8) == Parts{16, 32, 48, 64, 80, 96, 112, 128});
  CHECK(candidate_sizes(4096, 16).size() == 16);
  CHECK(candidate_sizes(4096, 1) == Parts{4096});
  CHECK(sizes_near(3, 20, 4) == Parts{1, 2, 3, 4, 5, 6, 7});
  CHECK(sizes_near(20, 20, 2) == Parts{18, 19, 20});
}

TEST_CASE("cuts from granule sizes are within 5 percent of the best on measured tables", "[balance][fixtures]") {
  using namespace fixtures;
  const std::vector<std::vector<const std::vector<double>*>> sets{{&forward_avx512, &forward_avx2},
                                                                  {&forward_avx512, &forward_sse41},
                                                                  {&forward_avx2, &forward_sse41},
                                                                  {&forward_avx512, &forward_avx512, &forward_avx2},
                                                                  {&forward_avx512, &forward_avx2, &forward_sse41}};
  for (const auto& devices : sets)
    for (Index size : {64, 96, 128}) CHECK(found_over_best(devices, size) <= 1.05);

  // The slowest of three unlike devices rightly gets nothing.
  const DimBalance three =
      balance_dim({whole_table(forward_avx512, 64), whole_table(forward_avx2, 64), whole_table(forward_sse41, 64)}, 64);
  CHECK(three.parts[2] == 0);
  CHECK(three.seconds <= 2.76);
  CHECK(makespan({whole_table(forward_avx512, 128), whole_table(forward_avx2, 128)}, {80, 48}) <=
        1.02 * balance_dim({whole_table(forward_avx512, 128), whole_table(forward_avx2, 128)}, 128).seconds);
}

TEST_CASE("one cut for the three passes of a measured convolution", "[balance][fixtures]") {
  using namespace fixtures;
  auto table = [](const std::vector<double>& ms) {  // in steps of 4 -> units of 4 filters
    std::vector<double> t{0.0};
    t.insert(t.end(), ms.begin(), ms.end());
    return t;
  };
  auto fours = [](const std::vector<double>& ms) {
    std::vector<double> t{0.0};
    for (std::size_t k = 3; k < ms.size(); k += 4) t.push_back(ms[k]);
    return t;
  };
  const std::vector<SizeTables> passes{{fours(forward_avx512), fours(forward_avx2)},
                                       {table(bwd_data_oc_avx512), table(bwd_data_oc_avx2)},
                                       {table(bwd_weights_oc_avx512), table(bwd_weights_oc_avx2)}};
  const DimBalance found = balance_sum(passes, 32);
  double best = kNever;
  for (Index k = 0; k <= 32; k++) {
    double sum = 0;
    for (const auto& g : passes) sum += makespan(g, {k, 32 - k});
    best = std::min(best, sum);
  }
  CHECK(found.seconds == Approx(best).epsilon(1e-12));
  CHECK(found.parts == Parts{20, 12});  // 80 and 48 filters
}

TEST_CASE("balance_dim takes 16 ranks x 256 units and 64 x 4096", "[balance]") {
  std::mt19937 random(1);
  for (const auto& [ranks, size] : {std::tuple{16, 256}, std::tuple{64, 4096}}) {
    SizeTables t;
    for (int r = 0; r < ranks; r++) {
      const double speed = std::uniform_real_distribution(0.5, 8.0)(random);
      const Index granule = r % 2 == 0 ? 16 : 8;
      t.emplace_back();
      for (Index k = 0; k <= size; k++) t.back().push_back(1e-4 * speed * static_cast<double>((k + granule - 1) / granule));
    }
    const DimBalance found = balance_dim(t, size);
    CHECK(std::accumulate(found.parts.begin(), found.parts.end(), Index{0}) == size);
  }
}

TEST_CASE("balance_dim alone: what does not fit together is refused") {
  const SizeTables two{{0, 1, 2, 3}, {0, 2, 4, 6}};
  CHECK(balance_dim(two, 3).parts == Parts{2, 1});
  CHECK(makespan(two, {2, 1}) == 2);
  CHECK_THROWS_WITH(balance_dim({}, 3), Catch::Contains("no table of seconds"));
  CHECK_THROWS_WITH(balance_dim(two, -1), Catch::Contains("a dim of -1 units"));
  CHECK_THROWS_WITH(balance_dim(two, 4), Catch::Contains("seconds of 4 sizes; expected those of 0 to 4 units"));
  CHECK_THROWS_WITH(balance_dim({{-1, -2}, {-1, -3}}, 1), Catch::Contains("less than 0 seconds"));
  CHECK_THROWS_WITH(balance_dim(two, 3, {1}), Catch::Contains("1 caps for 2 ranks"));
  CHECK_THROWS_WITH(balance_dim(two, 3, {-1, 3}), Catch::Contains("a cap of -1 units"));
  CHECK_THROWS_WITH(balance_dim(two, 3, {1, 1}), Catch::Contains("no cut of 3 fits"));
  CHECK_THROWS_WITH(makespan(two, {3}), Catch::Contains("1 parts for 2 ranks"));
  CHECK_THROWS_WITH(makespan(two, {4, -1}), Catch::Contains("a part of 4 units"));
  CHECK_THROWS_WITH(proportional_parts(two, 5), Catch::Contains("expected those of 0 to 5 units"));
}
