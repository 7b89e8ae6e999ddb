// SPDX-License-Identifier: Apache-2.0
// owners, copies and subtract against brute force: every element of small random spaces is looked at.
#include <motley/error.h>
#include <motley/exchange.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <numeric>
#include <random>
#include <set>
#include <tuple>

using namespace motley;

namespace {

using Point = std::vector<Index>;

std::mt19937 g_random(20240607);
Index below(Index n) {
  return std::uniform_int_distribution<Index>(0, n - 1)(g_random);
}

Box random_box(const Box& space) {
  Box box;
  for (const Range& r : space) {
    const Index a = r.begin + below(r.size() + 1), b = r.begin + below(r.size() + 1);
    box.push_back({std::min(a, b), std::max(a, b)});
  }
  return box;
}

Box random_space(std::size_t dims) {
  Box space;
  for (std::size_t k = 0; k < dims; k++) {
    const Index begin = below(3);
    space.push_back({begin, begin + 1 + below(dims > 2 ? 5 : 9)});
  }
  return space;
}

void each_point(const Box& box, const std::function<void(const Point&)>& visit) {
  Point p;
  for (const Range& r : box) p.push_back(r.begin);
  if (volume(box) == 0) return;
  for (;;) {
    visit(p);
    std::size_t k = box.size();
    while (k > 0 && ++p[k - 1] == box[k - 1].end) {
      p[k - 1] = box[k - 1].begin;
      k--;
    }
    if (k == 0) return;
  }
}

bool holds(const Box& box, const Point& p) {
  for (std::size_t k = 0; k < box.size(); k++)
    if (p[k] < box[k].begin || p[k] >= box[k].end) return false;
  return true;
}

std::vector<Shard> random_held(const Box& space, int ranks) {
  std::vector<Shard> held;
  for (int r = 0; r < ranks; r++)
    for (Index i = below(3); i > 0; i--) held.push_back({r, below(4) == 0 ? space : random_box(space)});
  return held;
}

// The same elements for each rank, in boxes that do not overlap (where a reader's boxes do, copies fills each of them).
std::vector<Shard> apart(const std::vector<Shard>& held) {
  std::vector<Shard> out;
  for (std::size_t i = 0; i < held.size(); i++) {
    std::vector<Box> before;
    for (std::size_t j = 0; j < i; j++)
      if (held[j].rank == held[i].rank) before.push_back(held[j].box);
    for (const Box& box : subtract(held[i].box, before)) out.push_back({held[i].rank, box});
  }
  return out;
}

std::set<int> holders(const std::vector<Shard>& held, const Point& p) {
  std::set<int> out;
  for (const Shard& h : held)
    if (holds(h.box, p)) out.insert(h.rank);
  return out;
}

}  // namespace

TEST_CASE("subtract: what is left is disjoint, and is what it should be") {
  for (int round = 0; round < 400; round++) {
    const Box space = random_space(1 + static_cast<std::size_t>(round % 4));
    const Box box = random_box(space);
    std::vector<Box> removed;
    for (Index i = below(4); i > 0; i--) removed.push_back(random_box(space));
    const std::vector<Box> left = subtract(box, removed);
    for (const Box& b : left) REQUIRE(volume(b) > 0);
    each_point(space, [&](const Point& p) {
      const bool wanted = holds(box, p) && std::none_of(removed.begin(), removed.end(), [&](const Box& r) { return holds(r, p); });
      REQUIRE(std::count_if(left.begin(), left.end(), [&](const Box& b) { return holds(b, p); }) == (wanted ? 1 : 0));
    });
  }
  CHECK(subtract({}, {}) == std::vector<Box>{{}});  // a scalar
}

TEST_CASE("owners: one per element, among its holders") {
  for (int round = 0; round < 400; round++) {
    const Box space = random_space(1 + static_cast<std::size_t>(round % 4));
    const std::vector<Shard> held = random_held(space, 1 + static_cast<int>(below(4)));
    const std::vector<Shard> owned = owners(held);
    REQUIRE(std::is_sorted(owned.begin(), owned.end()));
    REQUIRE(owners(held) == owned);
    for (const Shard& o : owned) REQUIRE(volume(o.box) > 0);
    each_point(space, [&](const Point& p) {
      const std::set<int> who = holders(held, p), its = holders(owned, p);
      REQUIRE(std::count_if(owned.begin(), owned.end(), [&](const Shard& o) { return holds(o.box, p); }) == (who.empty() ? 0 : 1));
      if (!who.empty()) REQUIRE(who.contains(*its.begin()));
    });
  }
}

TEST_CASE("owners: small atoms have one, larger ones are shared in multiples where there are enough") {
  for (int round = 0; round < 400; round++) {
    const Box space = random_space(1 + static_cast<std::size_t>(round % 4));
    const std::vector<Shard> held = random_held(space, 1 + static_cast<int>(below(4)));
    const Ownership rules{.whole_below = 1 + below(40), .multiple = 1 + below(6)};
    std::vector<int> chosen;  // for small atoms, in their order
    const auto last = [&](const std::vector<int>& ranks, Index elements) {
      REQUIRE(elements < rules.whole_below);
      chosen.push_back(ranks.back());
      return ranks.back();
    };
    const std::vector<Shard> owned = owners(held, last, rules);
    std::size_t small = 0;
    Index covered = 0;
    for (const Atom& atom : atoms(held)) {
      std::vector<Shard> its;
      for (const Shard& o : owned)
        if (contains(atom.box, o.box)) its.push_back(o);
      covered += volume(atom.box);
      if (volume(atom.box) < rules.whole_below) {
        REQUIRE(its == std::vector<Shard>{{atom.ranks.back(), atom.box}});
        REQUIRE(chosen.at(small++) == atom.ranks.back());
        continue;
      }
      Index longest = 0, elements = 0, most = 0, least = volume(atom.box);
      for (const Range& r : atom.box) longest = std::max(longest, r.size());
      const Index inner = volume(atom.box) / longest, step = rules.multiple / std::gcd(inner, rules.multiple);
      const auto ranks = static_cast<Index>(atom.ranks.size());
      for (std::size_t k = 0; k < its.size(); k++) {
        const Index size = volume(its[k].box);
        elements += size;
        most = std::max(most, size);
        least = std::min(least, size);
        REQUIRE(its[k].rank == atom.ranks[k]);
        if (k + 1 < its.size() && longest / step >= ranks) REQUIRE(size % rules.multiple == 0);
      }
      REQUIRE(elements == volume(atom.box));
      if (longest >= ranks) REQUIRE(static_cast<Index>(its.size()) == ranks);
      REQUIRE(most - least <= (longest / step >= ranks ? 2 * step : 1) * inner);
    }
    REQUIRE(small == chosen.size());
    Index all = 0;
    for (const Shard& o : owned) all += volume(o.box);
    REQUIRE(all == covered);
  }
}

TEST_CASE("owners: what all ranks hold is shared evenly along the longest dim, in rank order") {
  auto all_hold = [](const Box& box) { return std::vector<Shard>{{2, box}, {0, box}, {1, box}}; };
  CHECK(owners(all_hold({{0, 4}, {0, 10}, {0, 64}})) ==
        std::vector<Shard>{{0, {{0, 4}, {0, 10}, {0, 22}}}, {1, {{0, 4}, {0, 10}, {22, 42}}}, {2, {{0, 4}, {0, 10}, {42, 64}}}});
  CHECK(owners(all_hold({{0, 1024}})) == std::vector<Shard>{{0, {{0, 336}}}, {1, {{336, 688}}}, {2, {{688, 1024}}}});
  const auto first = [](const std::vector<int>& ranks, Index) { return ranks.front(); };
  CHECK(owners(all_hold({{0, 1024}}), first) == owners(all_hold({{0, 1024}})));
  CHECK(owners(all_hold({{0, 1023}}), first) == std::vector<Shard>{{0, {{0, 1023}}}});
  CHECK(owners(all_hold({{0, 8}})) == std::vector<Shard>{{0, {{0, 3}}}, {1, {{3, 6}}}, {2, {{6, 8}}}});
  // More holders than indices: the later ones own nothing. An empty box owns nothing, no one owns nothing.
  CHECK(owners(std::vector<Shard>{{0, {{0, 1}}}, {1, {{0, 1}}}, {2, {{0, 0}}}}) == std::vector<Shard>{{0, {{0, 1}}}});
  CHECK(owners({}).empty());
  CHECK(owners(std::vector<Shard>{{1, {}}, {0, {}}}) == std::vector<Shard>{{0, {}}});
}

TEST_CASE("copies: every needed element comes once, from its owner") {
  for (int round = 0; round < 400; round++) {
    const Box space = random_space(1 + static_cast<std::size_t>(round % 4));
    const int ranks = 1 + static_cast<int>(below(4));
    std::vector<Shard> held = random_held(space, ranks);
    held.push_back({static_cast<int>(below(ranks)), space});  // so that everything has an owner
    const std::vector<Shard> from = owners(held), to = apart(random_held(space, ranks));
    const std::vector<BoxMessage> messages = copies(from, to);
    for (const BoxMessage& m : messages) {
      REQUIRE(volume(m.box) > 0);
      REQUIRE(m.writers.empty());
      REQUIRE(std::any_of(from.begin(), from.end(), [&](const Shard& h) { return h.rank == m.from && contains(h.box, m.box); }));
      REQUIRE(std::any_of(to.begin(), to.end(), [&](const Shard& h) { return h.rank == m.to && contains(h.box, m.box); }));
    }
    REQUIRE(std::is_sorted(messages.begin(), messages.end(), [](const BoxMessage& a, const BoxMessage& b) {
      return std::tie(a.to, a.box, a.from) < std::tie(b.to, b.box, b.from);
    }));
    for (int r = 0; r < ranks; r++)
      each_point(space, [&](const Point& p) {
        const auto comes =
            std::count_if(messages.begin(), messages.end(), [&](const BoxMessage& m) { return m.to == r && holds(m.box, p); });
        REQUIRE(comes == (holders(to, p).contains(r) ? 1 : 0));
      });
  }
}
