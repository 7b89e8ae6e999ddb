// SPDX-License-Identifier: Apache-2.0
// Which way from one state to another: straight, or through states between.
#include <motley/error.h>
#include <motley/redistribute.h>

#include <algorithm>
#include <limits>
#include <map>

namespace motley {

double seconds_of(std::span<const BoxMessage> messages, Index item_bytes, const LinkSeconds& link) {
  std::map<std::pair<int, int>, Index> bytes;  // (reader, writer)
  for (const BoxMessage& m : messages)
    if (m.from != m.to) bytes[{m.to, m.from}] += volume(m.box) * item_bytes;
  std::map<int, double> receives, sends;
  double slowest = 0;
  for (const auto& [ends, size] : bytes) {
    const double seconds = link(ends.second, ends.first, size);
    slowest = std::max({slowest, receives[ends.first] += seconds, sends[ends.second] += seconds});
  }
  return slowest;
}

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

std::map<int, Index> items_of(std::span<const Held> state) {
  std::map<int, Index> out;
  for (const Held& h : state) out[h.rank] += volume(h.box);
  return out;
}

class Hops {
 public:
  Hops(std::vector<std::span<const Held>> states, const LinkSeconds& link, const PathLimits& limits)
      : states_(std::move(states)), link_(link), limits_(limits) {
    for (const auto& s : states_) items_.push_back(items_of(s));
  }
  double seconds(std::size_t a, std::size_t b) const {
    for (std::size_t r = 0; r < limits_.rank_bytes.size(); r++)
      if ((items(a, r) + items(b, r)) * limits_.item_bytes > limits_.rank_bytes[r]) return kNever;
    return seconds_of(fill(states_[a], states_[b]), limits_.item_bytes, link_);
  }

 private:
  Index items(std::size_t state, std::size_t rank) const {
    const auto at = items_[state].find(static_cast<int>(rank));
    return at == items_[state].end() ? 0 : at->second;
  }
  std::vector<std::span<const Held>> states_;
  std::vector<std::map<int, Index>> items_{};
  const LinkSeconds& link_;
  const PathLimits& limits_;
};

}  // namespace

Path cheapest_path(std::span<const Held> from, std::span<const Held> to, std::span<const std::vector<Held>> via, const LinkSeconds& link,
                   const PathLimits& limits) {
  // States: via.., then to. The direct way is always open: what it holds is held before and behind it anyway.
  const std::size_t n = via.size() + 1, last = via.size(), start = n;
  std::vector<std::span<const Held>> states(via.begin(), via.end());
  states.push_back(to);
  states.push_back(from);
  const Hops hops(states, link, limits);
  struct Reached {
    double seconds = kNever;
    int hops = 0;
    std::size_t before = 0;
    bool done = false;
  };
  auto sooner = [](double s, int h, const Reached& than) { return s < than.seconds || (s == than.seconds && h < than.hops); };
  std::vector<Reached> reached(n);
  for (std::size_t k = 0; k < last; k++) reached[k] = {hops.seconds(start, k), 1, start, false};
  reached[last] = {seconds_of(fill(from, to), limits.item_bytes, link), 1, start, false};
  for (std::size_t round = 0; round < n; round++) {
    std::size_t next = n;
    for (std::size_t k = 0; k < n; k++)
      if (!reached[k].done && (next == n || sooner(reached[k].seconds, reached[k].hops, reached[next]))) next = k;
    reached[next].done = true;
    if (next == last) break;
    if (reached[next].seconds == kNever) continue;
    for (std::size_t k = 0; k < n; k++)
      if (!reached[k].done && reached[next].seconds < reached[k].seconds)
        if (const double s = reached[next].seconds + hops.seconds(next, k); sooner(s, reached[next].hops + 1, reached[k]))
          reached[k] = {s, reached[next].hops + 1, next, false};
  }
  Path path{{}, reached[last].seconds};
  for (std::size_t at = reached[last].before; at != start; at = reached[at].before) path.through.insert(path.through.begin(), at);
  return path;
}

std::vector<Held> relays(std::span<const Held> from, std::span<const Held> to, std::span<const std::vector<int>> groups) {
  std::vector<Held> out;
  for (const std::vector<int>& group : groups) {
    auto inside = [&](int rank) { return std::find(group.begin(), group.end(), rank) != group.end(); };
    std::vector<Box> at_home;  // what the group holds already
    for (const Held& h : from)
      if (inside(h.rank)) at_home.push_back(h.box);
    std::vector<Held> foreign;  // what its ranks ask for beyond that
    for (const Held& need : to)
      if (inside(need.rank))
        for (Box& b : subtract(need.box, at_home)) foreign.push_back({need.rank, std::move(b)});
    for (Held& h : owners(foreign)) out.push_back(std::move(h));
    for (const Held& h : from) {
      if (!inside(h.rank)) continue;
      std::vector<Box> wanted;  // by anyone of the group; disjoint
      for (const Held& need : to)
        if (const Box part = intersect(h.box, need.box); inside(need.rank) && volume(part) > 0)
          for (Box& b : subtract(part, wanted)) wanted.push_back(std::move(b));
      for (Box& b : wanted) out.push_back({h.rank, std::move(b)});
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace motley
