// SPDX-License-Identifier: Apache-2.0
// Schedules: the steps, messages and bytes that schedule.h says; every partial is added once, every value arrives once, nothing is
// sent before it is there.
#include <motley/schedule.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <random>
#include <set>

using namespace motley;

namespace {

constexpr Index kPart = 12;  // elements that each of P ranks owns

std::vector<int> hosts_of(int ranks, int per_host) {
  std::vector<int> out;
  for (int r = 0; r < ranks; r++) out.push_back(r / per_host);
  return out;
}

// Every rank has a partial of all n, or reads all n; each owns its part, or rank 0 everything.
std::vector<BoxMessage> all_to_owners(int ranks, bool one_owner, bool sums) {
  std::vector<BoxMessage> out;
  for (int owner = 0; owner < (one_owner ? 1 : ranks); owner++)
    for (int r = 0; r < ranks; r++) {
      const Box box{{owner * kPart, one_owner ? ranks * kPart : (owner + 1) * kPart}};
      out.push_back(sums ? BoxMessage{r, owner, box, {0}} : BoxMessage{owner, r, box, {}});
    }
  return out;
}

struct Counted {
  std::map<int, Index> received{}, sent{}, from_afar{};
  std::map<int, int> messages{};
  std::map<int, std::set<int>> partners{};
  Index received_at(int rank) const { return received.contains(rank) ? received.at(rank) : 0; }
};

Counted count(const Stages& stages, const std::vector<int>& hosts) {
  Counted out;
  for (const auto& stage : stages)
    for (const BoxMessage& m : stage) {
      if (m.from == m.to) continue;
      out.received[m.to] += volume(m.box);
      out.sent[m.from] += volume(m.box);
      if (hosts[static_cast<std::size_t>(m.from)] != hosts[static_cast<std::size_t>(m.to)]) out.from_afar[m.to] += volume(m.box);
      out.messages[m.to]++;
      out.partners[m.to].insert(m.from);
    }
  return out;
}

Stages staged(bool sums, const std::vector<BoxMessage>& messages, const Schedule& by, const std::vector<int>& hosts) {
  return sums ? sum_stages(messages, by, hosts) : copy_stages(messages, by, hosts);
}

int lg(int ranks) {
  return static_cast<int>(std::ceil(std::log2(ranks)));
}

}  // namespace

TEST_CASE("schedules: steps, messages and bytes where each rank owns 1/P") {
  for (const bool sums : {true, false})
    for (int ranks : {2, 3, 4, 5, 6, 8, 12}) {
      const auto messages = all_to_owners(ranks, false, sums);
      for (const Schedule& by : {Schedule{}, {Tree::ring}, {Tree::ring, 3}, {Tree::halving}}) {
        const Stages stages = staged(sums, messages, by, hosts_of(ranks, 1));
        const Counted counted = count(stages, hosts_of(ranks, 1));
        INFO(to_string(by) << ", " << ranks << " ranks, " << (sums ? "sums" : "copies"));
        const std::size_t steps = by.tree == Tree::direct ? 1
                                  : by.tree == Tree::ring ? static_cast<std::size_t>(ranks - 2 + by.chunks)
                                                          : static_cast<std::size_t>(lg(ranks));
        CHECK(stages.size() == steps);
        for (int r = 0; r < ranks; r++) {
          CHECK(counted.received.at(r) == (ranks - 1) * kPart);  // n (P-1)/P
          CHECK(counted.messages.at(r) == by.chunks * (ranks - 1));
          const int partners = by.tree == Tree::direct ? ranks - 1 : by.tree == Tree::ring ? 1 : lg(ranks);
          CHECK(static_cast<int>(counted.partners.at(r).size()) == partners);
        }
      }
    }
}

TEST_CASE("schedules: two levels, what crosses from host to host") {
  for (const bool sums : {true, false})
    for (const auto& [ranks, k] : {std::pair{4, 2}, {6, 3}, {6, 2}, {8, 4}, {12, 3}}) {
      const std::vector<int> hosts = hosts_of(ranks, k);
      const auto messages = all_to_owners(ranks, false, sums);
      const Stages stages = staged(sums, messages, {Tree::two_level}, hosts);
      const Counted two = count(stages, hosts), direct = count(staged(sums, messages, {}, hosts), hosts);
      INFO(ranks << " ranks, " << k << " a host, " << (sums ? "sums" : "copies"));
      CHECK(stages.size() == 2);
      Index afar = 0;
      for (int r = 0; r < ranks; r++) {
        CHECK(two.received.at(r) == (ranks - 1) * kPart);
        CHECK(direct.from_afar.at(r) == (ranks - k) * kPart);
        if (!sums) CHECK(two.from_afar.at(r) == (ranks / k - 1) * kPart);
        afar += two.from_afar.at(r);
      }
      CHECK(afar == ranks * (ranks / k - 1) * kPart);
    }
}

TEST_CASE("schedules: one owner") {
  for (const bool sums : {true, false})
    for (const auto& [ranks, k] : {std::pair{4, 2}, {6, 3}, {8, 2}, {9, 3}}) {
      const std::vector<int> hosts = hosts_of(ranks, k);
      const auto messages = all_to_owners(ranks, true, sums);
      const Index n = ranks * kPart;
      auto owners = [&](const Schedule& by) {
        const Counted counted = count(staged(sums, messages, by, hosts), hosts);
        return sums ? counted.received.at(0) : counted.sent.at(0);
      };
      INFO(ranks << " ranks, " << k << " a host, " << (sums ? "sums" : "copies"));
      CHECK(owners({}) == n * (ranks - 1));
      CHECK(owners({Tree::ring}) == n);
      CHECK(owners({Tree::ring, 4}) == n);
      CHECK(owners({Tree::halving}) == n * lg(ranks));
      CHECK(owners({Tree::two_level}) == n * (ranks / k - 1 + k - 1));
      CHECK(staged(sums, messages, {Tree::ring, 4}, hosts).size() == static_cast<std::size_t>(ranks - 2 + 4));
      // In k chunks each link between two hosts carries n/k.
      std::map<std::pair<int, int>, Index> links;
      for (const auto& stage : staged(sums, messages, {Tree::two_level, k}, hosts))
        for (const BoxMessage& m : stage)
          if (hosts[static_cast<std::size_t>(m.from)] != hosts[static_cast<std::size_t>(m.to)])
            links[{m.from, m.to}] += volume(m.box);
      CHECK(links.size() == static_cast<std::size_t>(ranks - k));
      for (const auto& [ends, elements] : links) CHECK(elements == n / k);
    }
}

namespace {

// Which ranks' partials (bits) each rank's sum of each element has, element by element; a box is one range.
std::string wrong_sums(const std::vector<BoxMessage>& partials, const Stages& stages, int ranks, Index size) {
  std::map<std::tuple<int, int, Index>, unsigned> has;  // (tree, rank, element)
  std::map<std::pair<int, Index>, unsigned> made, want;
  for (const BoxMessage& m : partials)
    for (Index i = m.box[0].begin; i < m.box[0].end; i++) want[{m.to, i}] |= 1U << m.from;
  for (const auto& stage : stages) {
    auto after = has;
    for (const BoxMessage& m : stage)
      for (Index i = m.box[0].begin; i < m.box[0].end; i++) {
        const unsigned sent = (m.from == m.to ? 0U : has[{m.tree, m.from, i}]) | (m.writers.empty() ? 0U : 1U << m.from);
        unsigned& sum = after[{m.tree, m.to, i}];
        if ((sum & sent) != 0) return "a partial is added twice";
        if (sent == 0) return "nothing is sent";
        sum |= sent;
      }
    has = std::move(after);
  }
  for (const auto& [at, sum] : has) {
    const auto& [tree, rank, element] = at;
    const auto wanted = want.find({rank, element});
    if (wanted != want.end() && sum == wanted->second) made[{rank, element}] = sum;
  }
  return ranks > 0 && size > 0 && made == want ? "" : "a sum lacks partials";
}

std::string wrong_copies(const std::vector<BoxMessage>& copies, const Stages& stages) {
  std::set<std::pair<int, Index>> has, want;
  for (const BoxMessage& m : copies)
    for (Index i = m.box[0].begin; i < m.box[0].end; i++) {
      has.insert({m.from, i});
      want.insert({m.to, i});
    }
  for (const auto& stage : stages) {
    auto after = has;
    for (const BoxMessage& m : stage)
      for (Index i = m.box[0].begin; i < m.box[0].end; i++) {
        if (!has.contains({m.from, i})) return "sent before it is there";
        if (m.from != m.to && !after.insert({m.to, i}).second) return "arrives twice";
      }
    has = std::move(after);
  }
  return std::includes(has.begin(), has.end(), want.begin(), want.end()) ? "" : "a value is missing";
}

}  // namespace

TEST_CASE("schedules: every partial is added once, every value arrives once, whatever the boxes") {
  for (unsigned number = 0; number < 400; number++) {
    std::mt19937 random(number);
    auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    const int ranks = 1 + below(16);
    const Index size = 1 + below(30);
    std::vector<int> hosts;
    for (int r = 0; r < ranks; r++) hosts.push_back(below(3));
    std::vector<BoxMessage> partials, copies;
    for (Index at = 0; at < size;) {  // tiles, some ranks' partials of parts of them, some readers
      const Index end = std::min<Index>(size, at + 1 + below(8));
      const int owner = below(ranks);
      for (int r = 0; r < ranks; r++) {
        const Index from = at + below(static_cast<int>(end - at)), to = from + 1 + below(static_cast<int>(end - from));
        if (below(3) > 0) partials.push_back({r, owner, {{from, to}}, {0}});
        if (below(3) > 0 && r != owner) copies.push_back({owner, r, {{from, to}}, {}});
      }
      at = end;
    }
    for (const Schedule& by :
         {Schedule{}, {Tree::ring}, {Tree::ring, 3}, {Tree::halving}, {Tree::two_level}, {Tree::two_level, 2}}) {
      INFO("case " << number << ", " << to_string(by));
      if (by.tree != Tree::direct) CHECK(wrong_sums(partials, sum_stages(partials, by, hosts), ranks, size) == "");
      CHECK(wrong_copies(copies, copy_stages(copies, by, hosts)) == "");
    }
  }
}
