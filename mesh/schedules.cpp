// SPDX-License-Identifier: Apache-2.0
#include <motley/partition.h>
#include <motley/schedule.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace motley {

namespace {

// One edge of a tree, directed towards the root.
struct Edge {
  int from = 0, to = 0, stage = 0;
};

int host_of(std::span<const int> hosts, int rank) {
  return hosts.empty() ? 0 : hosts[static_cast<std::size_t>(rank)];
}

std::vector<Edge> path(const std::vector<int>& ranks, std::size_t root) {
  std::vector<Edge> out;
  for (std::size_t i = 1; i < ranks.size(); i++)
    out.push_back({ranks[(root + i) % ranks.size()], ranks[(root + i + 1) % ranks.size()], static_cast<int>(i) - 1});
  return out;
}

// Numbered from the root, rank x of [2^k, 2^(k+1)) sends to x - 2^k; the farthest first.
std::vector<Edge> binomial(const std::vector<int>& ranks, std::size_t root) {
  int rounds = 0;
  while ((std::size_t{1} << rounds) < ranks.size()) rounds++;
  std::vector<Edge> out;
  for (int k = 0; k < rounds; k++)
    for (std::size_t x = std::size_t{1} << k; x < std::min(std::size_t{2} << k, ranks.size()); x++)
      out.push_back({ranks[(root + x) % ranks.size()], ranks[(root + x - (std::size_t{1} << k)) % ranks.size()], rounds - 1 - k});
  return out;
}

// The ranks of a host take turns in being the one to which the others send.
std::vector<Edge> by_hosts(const std::vector<int>& ranks, int root, std::span<const int> hosts, int turn) {
  std::map<int, std::vector<int>> on;
  for (int r : ranks)
    if (r != root) on[host_of(hosts, r)].push_back(r);
  std::vector<Edge> out;
  for (const auto& [host, there] : on) {
    const bool away = host != host_of(hosts, root) && there.size() > 1;
    const int deputy = away ? there[static_cast<std::size_t>(root + turn) % there.size()] : root;
    for (int r : there) out.push_back({r, r == deputy ? root : deputy, away && r != deputy ? 0 : 1});
  }
  const bool flat = std::none_of(out.begin(), out.end(), [](const Edge& e) { return e.stage == 0; });
  for (Edge& e : out) e.stage -= flat ? 1 : 0;
  return out;
}

// The tree for one chunk of a box. ranks: ascending, including the root.
std::vector<Edge> edges(Tree tree, const std::vector<int>& ranks, int root, std::span<const int> hosts, int chunk) {
  const auto at = static_cast<std::size_t>(std::find(ranks.begin(), ranks.end(), root) - ranks.begin());
  if (tree == Tree::halving) return binomial(ranks, at);
  if (tree == Tree::two_level) return by_hosts(ranks, root, hosts, chunk);
  std::vector<Edge> out = path(ranks, at);
  for (Edge& e : out) e.stage += chunk;
  return out;
}

int depth_of(const std::vector<Edge>& edges) {
  int depth = 0;
  for (const Edge& e : edges) depth = std::max(depth, e.stage);
  return depth;
}

// Divided along the first dim that is long enough, else along the longest.
std::vector<Box> in_chunks(const Box& box, int chunks) {
  std::size_t dim = 0;
  for (std::size_t d = 1; d < box.size(); d++)
    if (box[dim].size() < chunks && box[d].size() > box[dim].size()) dim = d;
  if (box.empty() || chunks < 2) return {box};
  std::vector<Box> out;
  const Partition parts = Partition::even(box[dim].size(), chunks);
  for (int c = 0; c < chunks; c++) {
    Box chunk = box;
    chunk[dim] = {box[dim].begin + parts.range(c).begin, box[dim].begin + parts.range(c).end};
    if (volume(chunk) > 0) out.push_back(std::move(chunk));
  }
  return out;
}

void put(Stages& stages, int at, BoxMessage message) {
  if (stages.size() <= static_cast<std::size_t>(at)) stages.resize(static_cast<std::size_t>(at) + 1);
  stages[static_cast<std::size_t>(at)].push_back(std::move(message));
}

// Joins parts of one message with the same route that are equal but for one dim, along which one begins where the other ends.
void join(std::vector<BoxMessage>& stage) {
  auto joined = [](BoxMessage& a, const BoxMessage& b) {
    std::size_t other = a.box.size();
    for (std::size_t d = 0; d < a.box.size(); d++) {
      if (a.box[d] == b.box[d]) continue;
      if (other < a.box.size()) return false;
      other = d;
    }
    if (other == a.box.size() || (a.box[other].end != b.box[other].begin && b.box[other].end != a.box[other].begin)) return false;
    a.box[other] = {std::min(a.box[other].begin, b.box[other].begin), std::max(a.box[other].end, b.box[other].end)};
    return true;
  };
  std::map<std::tuple<int, int, int>, std::vector<std::size_t>> routes;  // positions in the stage
  for (std::size_t i = 0; i < stage.size(); i++)
    if (const BoxMessage& m = stage[i]; m.from != m.to) routes[{m.tree, m.from, m.to}].push_back(i);
  std::vector<bool> gone(stage.size(), false);
  for (auto& [route, its] : routes)
    for (std::size_t i = 0; i < its.size(); i++)
      for (std::size_t k = i + 1; k < its.size();) {
        if (!joined(stage[its[i]], stage[its[k]])) {
          k++;
          continue;
        }
        gone[its[k]] = true;
        its.erase(its.begin() + static_cast<std::ptrdiff_t>(k));
        k = i + 1;
      }
  std::size_t left = 0;
  for (std::size_t i = 0; i < stage.size(); i++)
    if (!gone[i] && left++ != i) stage[left - 1] = std::move(stage[i]);
  stage.resize(left);
}

// Visits the list grouped by one of its ends, with boxes as atoms: the ranks at the other end, with their messages in the list's
// order.
template <class Visit>
void each_atom(std::span<const BoxMessage> messages, int BoxMessage::*root, Visit visit) {
  std::map<int, std::vector<Shard>> by_root;  // Shard::rank: position in the list
  for (std::size_t i = 0; i < messages.size(); i++) by_root[messages[i].*root].push_back({static_cast<int>(i), messages[i].box});
  for (const auto& [at, held] : by_root)
    for (const Atom& atom : atoms(held)) visit(at, atom.box, atom.ranks);
}

}  // namespace

std::string to_string(const Schedule& s) {
  const std::string name = kTreeNames[static_cast<std::size_t>(s.tree)];
  return s.chunks > 1 ? name + " in " + std::to_string(s.chunks) + " chunks" : name;
}

Stages sum_stages(std::span<const BoxMessage> sums, const Schedule& by, std::span<const int> hosts) {
  if (by.tree == Tree::direct || sums.empty()) return {{sums.begin(), sums.end()}};
  Stages out;
  int tree = 0;
  each_atom(sums, &BoxMessage::to, [&](int owner, const Box& whole, const std::vector<int>& who) {
    std::map<int, std::vector<int>> writers{{owner, {}}};
    bool own = false;
    for (int i : who) {
      const BoxMessage& m = sums[static_cast<std::size_t>(i)];
      auto& all = writers[m.from];
      all.insert(all.end(), m.writers.begin(), m.writers.end());
      own = own || m.from == owner;
    }
    std::vector<int> ranks;
    for (const auto& [rank, w] : writers) ranks.push_back(rank);
    int chunk = 0;
    for (const Box& box : in_chunks(whole, by.chunks)) {
      const std::vector<Edge> all = edges(by.tree, ranks, owner, hosts, chunk++);
      for (const Edge& e : all) put(out, e.stage, {e.from, e.to, box, writers[e.from], tree});
      if (own) put(out, depth_of(all), {owner, owner, box, writers[owner], tree});  // a tree's last stage brings its root something
      tree++;
    }
  });
  for (auto& stage : out)
    std::sort(stage.begin(), stage.end(), [](const BoxMessage& a, const BoxMessage& b) {
      return std::tie(a.to, a.tree, a.from) < std::tie(b.to, b.tree, b.from);
    });
  return out;
}

Stages copy_stages(std::span<const BoxMessage> copies, const Schedule& by, std::span<const int> hosts) {
  if (by.tree == Tree::direct || copies.empty()) return {{copies.begin(), copies.end()}};
  Stages out(1);
  std::vector<BoxMessage> travelling;
  for (const BoxMessage& m : copies) (m.from == m.to ? out[0] : travelling).push_back(m);
  each_atom(travelling, &BoxMessage::from, [&](int source, const Box& whole, const std::vector<int>& who) {
    std::map<int, int> part_of{{source, -1}};
    for (int i : who) part_of[travelling[static_cast<std::size_t>(i)].to] = i;
    std::vector<int> ranks;
    for (const auto& [rank, message] : part_of) ranks.push_back(rank);
    int chunk = 0;
    for (const Box& box : in_chunks(whole, by.chunks)) {
      const std::vector<Edge> all = edges(by.tree, ranks, source, hosts, chunk);
      const int last = depth_of(all) + (by.tree == Tree::ring ? chunk : 0);
      for (const Edge& e : all) put(out, last - e.stage, {e.to, e.from, box, {}, part_of[e.from]});
      chunk++;
    }
  });
  for (auto& stage : out) {
    std::sort(stage.begin(), stage.end(), [](const BoxMessage& a, const BoxMessage& b) {
      return std::tie(a.to, a.box, a.from) < std::tie(b.to, b.box, b.from);
    });
    join(stage);
  }
  return out;
}

int Wires::host(int rank) const {
  const auto r = static_cast<std::size_t>(rank);
  return r < hosts_.size() ? hosts_[r] : 0;
}

double Wires::arrival(int from, int to, double ready, const MessageSeconds& takes) {
  const auto line = [](std::vector<Line>& lines, int number) -> Line& {
    const auto i = static_cast<std::size_t>(number);
    if (lines.size() <= i) lines.resize(i + 1);
    return lines[i];
  };
  const double received = line(ranks_, to).pass(ready, takes.seconds);
  const int here = host(from), there = host(to);
  if (here == there) return received;
  const double left = line(out_, here).pass(ready, takes.on_card), came = line(in_, there).pass(ready, takes.on_card);
  return std::max(received, std::max(left, came) + takes.seconds - takes.on_card);
}

double seconds_of(std::span<const BoxMessage> messages, Index item_bytes, const LinkSeconds& link, std::span<const int> hosts) {
  std::map<std::pair<int, int>, Index> bytes;  // (reader, writer)
  for (const BoxMessage& m : messages)
    if (m.from != m.to) bytes[{m.to, m.from}] += volume(m.box) * item_bytes;
  Wires wires(hosts);
  double last = 0;
  for (const auto& [ends, size] : bytes)
    last = std::max(last, wires.arrival(ends.second, ends.first, 0, link(ends.second, ends.first, size)));
  return last;
}

double seconds_of(const Stages& stages, Index item_bytes, const LinkSeconds& link, std::span<const int> hosts) {
  double sum = 0;
  for (const auto& stage : stages) sum += seconds_of(stage, item_bytes, link, hosts);
  return sum;
}

}  // namespace motley
