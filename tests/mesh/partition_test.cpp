// SPDX-License-Identifier: Apache-2.0
#include <motley/error.h>
#include <motley/layout.h>
#include <motley/partition.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

using namespace motley;

namespace {

std::mt19937 g_random(5);
Index below(Index n) {
  return std::uniform_int_distribution<Index>(0, n - 1)(g_random);
}

// Parts follow each other from 0 to the size.
void check_tiles(const Partition& p, Index size, int parts) {
  REQUIRE(p.parts() == parts);
  REQUIRE(p.size() == size);
  Index at = 0;
  for (int i = 0; i < parts; i++) {
    REQUIRE(p.range(i).begin == at);
    REQUIRE(p.range(i).end >= at);
    at = p.range(i).end;
  }
  REQUIRE(at == size);
}

}  // namespace

TEST_CASE("even parts differ by at most one, the greater first") {
  for (Index size = 0; size < 40; size++)
    for (int parts = 1; parts < 9; parts++) {
      const Partition p = Partition::even(size, parts);
      check_tiles(p, size, parts);
      const std::vector<Index> sizes = p.sizes();
      REQUIRE(std::is_sorted(sizes.rbegin(), sizes.rend()));
      REQUIRE(sizes.front() - sizes.back() <= 1);
    }
}

TEST_CASE("even parts in multiples: none is empty, each is within one multiple of its share") {
  for (int round = 0; round < 2000; round++) {
    const int parts = static_cast<int>(1 + below(8));
    const Index multiple = 1 + below(17), size = below(round % 5 == 0 ? 1'000'000'000'000 : 300);
    const Partition p = Partition::even(size, parts, multiple);
    check_tiles(p, size, parts);
    if (multiple == 1 || size / multiple < parts) {
      REQUIRE(p == Partition::even(size, parts));
      continue;
    }
    for (int i = 0; i < parts; i++) {
      if (i + 1 < parts) REQUIRE(p.range(i).size() % multiple == 0);
      REQUIRE(p.range(i).size() > 0);
      REQUIRE(std::abs(p.range(i).size() - size / parts) <= multiple + 1);
    }
  }
}

TEST_CASE("proportional parts are within one of their share, zero shares get nothing") {
  for (int round = 0; round < 2000; round++) {
    const auto parts = static_cast<std::size_t>(1 + below(6));
    const Index size = below(round % 5 == 0 ? 1'000'000'000'000 : 300);
    std::vector<double> shares(parts);
    for (double& s : shares) s = below(4) == 0 ? 0.0 : static_cast<double>(1 + below(1000)) / 7.0;
    if (std::all_of(shares.begin(), shares.end(), [](double s) { return s == 0; })) shares[0] = 1;
    const Partition p = Partition::proportional(size, shares);
    check_tiles(p, size, static_cast<int>(parts));
    const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
    for (std::size_t i = 0; i < parts; i++) {
      const double exact = static_cast<double>(size) * shares[i] / total, got = static_cast<double>(p.sizes()[i]);
      if (shares[i] == 0)
        REQUIRE(got == 0);
      else
        REQUIRE(std::abs(got - exact) < 1.001);
    }
  }
  const auto sizes = [](Index size, std::vector<double> shares) { return Partition::proportional(size, shares).sizes(); };
  CHECK(sizes(10, {1, 1, 1}) == std::vector<Index>{4, 3, 3});  // a tie goes to the lower rank
  CHECK(sizes(1, {0, 1, 1}) == std::vector<Index>{0, 1, 0});
  CHECK(sizes(240, {70, 25, 5}) == std::vector<Index>{168, 60, 12});
  CHECK_THROWS_AS(sizes(4, {0, 0}), UserError);
  CHECK_THROWS_AS(sizes(4, {1, -1}), UserError);
  CHECK_THROWS_AS(sizes(4, {1, std::nan("")}), UserError);
  CHECK_THROWS_AS(sizes(4, {}), UserError);
}

TEST_CASE("given sizes, and a cut after a window op") {
  CHECK(Partition::of(std::vector<Index>{3, 0, 5}).range(2) == Range{3, 8});
  CHECK(Partition::of(std::vector<Index>{}).parts() == 0);
  CHECK_THROWS_AS(Partition::of(std::vector<Index>{3, -1}), UserError);
  CHECK_THROWS_AS(Partition::of(std::vector<Index>{INT64_MAX, INT64_MAX, 5}), UserError);
  for (const int parts : {0, -1}) CHECK_THROWS_AS(Partition::even(5, parts), UserError);
  CHECK_THROWS_AS(Partition::even(-5, 2), UserError);
  CHECK_THROWS_AS(Partition::even(5, 2, 0), UserError);
  for (int round = 0; round < 500; round++) {
    const Index from = 1 + below(60), to = below(60);
    std::vector<Index> cuts{0, below(from + 1), below(from + 1), from};
    std::sort(cuts.begin(), cuts.end());
    const Partition p = Partition::of(std::vector<Index>{cuts[1], cuts[2] - cuts[1], cuts[3] - cuts[2]}), q = p.scaled(from, to);
    check_tiles(q, to, 3);
    for (std::size_t i = 0; i < 3; i++)
      REQUIRE(std::abs(static_cast<double>(q.range(static_cast<int>(i)).begin) -
                       static_cast<double>(cuts[i] * to) / static_cast<double>(from)) <= 0.5);
    REQUIRE(p.scaled(from, from) == p);
  }
  CHECK(Partition::of(std::vector<Index>{7, 7}).scaled(14, 7).sizes() == std::vector<Index>{4, 3});  // (2*7*7 + 14) / 28 = 4
}

TEST_CASE("partitions of the largest sizes") {
  const Index most = std::numeric_limits<Index>::max();
  CHECK(Partition::proportional(most, std::vector<double>{1.0}).sizes() == std::vector<Index>{most});
  for (const Index size : Partition::even(most, 3, 2).sizes()) CHECK(std::abs(size - most / 3) <= 2);
  for (const Index size : {Index{3} << 30, Index{1} << 40, INT64_MAX - 1}) {
    const Index half = size / 2;
    CHECK(Partition::even(size, 2).scaled(size, half).sizes() == Partition::even(half, 2).sizes());
  }
}

TEST_CASE("a layout's boxes tile the tensor, over one axis, two axes and a jagged cut") {
  const Mesh mesh({{"data", 2}, {"model", 3}}, std::vector<Device>(6));
  CHECK(mesh.coord(5) == Coord{1, 2});
  CHECK(mesh.rank({1, 2}) == 5);
  CHECK_THROWS_WITH(mesh.axis("modle"), "the mesh has no axis \"modle\"; did you mean \"model\"?");
  const Shape shape{{"batch", 5}, {"filters", 12}};
  const auto sum = [&](const Layout& layout) {
    Index elements = 0;
    for (int r = 0; r < mesh.ranks(); r++) elements += volume(layout.box(mesh, r));
    return elements;
  };
  Layout layout{.shape = shape};
  layout.cuts["batch"] = {.axes = {0}, .lists = {Partition::of(std::vector<Index>{5, 0})}};
  layout.cuts["filters"] = {.axes = {1}, .per = 0, .lists = {Partition::of(std::vector<Index>{1, 2, 9}), Partition::even(12, 3)}};
  CHECK(sum(layout) == 60);
  CHECK(layout.box(mesh, 2) == Box{{0, 5}, {3, 12}});
  CHECK(layout.box(mesh, 4) == Box{{5, 5}, {4, 8}});
  Layout flat{.shape = shape};
  flat.cuts["filters"] = {.axes = {0, 1}, .lists = {Partition::of(std::vector<Index>{1, 2, 3, 0, 4, 2})}};
  CHECK(sum(flat) == 60);
  CHECK(flat.box(mesh, 4) == Box{{0, 5}, {6, 10}});
}
