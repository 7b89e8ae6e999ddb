// SPDX-License-Identifier: Apache-2.0
// Owners and copies by box intersection (exchange.h).
#include <motley/error.h>
#include <motley/exchange.h>
#include <motley/partition.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "base/overlaps.h"

namespace motley {

namespace {

using Ranks = std::vector<int>;

using Cells = std::vector<std::pair<Box, Ranks>>;  // ordered by box

template <class T>
void make_set(std::vector<T>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

// Cells of the grid spanned by all boxes' edges, with the ranks whose boxes contain them; cells in no box are left out.
Cells cells_of(std::span<const Shard> held) {
  const std::size_t dims = held.front().box.size();
  std::vector<std::vector<Index>> edges(dims);
  for (std::size_t k = 0; k < dims; k++) {
    for (const Shard& h : held) edges[k].insert(edges[k].end(), {h.box[k].begin, h.box[k].end});
    make_set(edges[k]);
  }
  Cells cells;
  std::vector<std::size_t> i(dims, 0);
  for (bool more = true; more;) {
    Box cell(dims);
    for (std::size_t k = 0; k < dims; k++) cell[k] = {edges[k][i[k]], edges[k][i[k] + 1]};
    Ranks who;
    for (const Shard& h : held)
      if (contains(h.box, cell)) who.push_back(h.rank);
    make_set(who);
    if (!who.empty()) cells.emplace_back(std::move(cell), std::move(who));
    more = false;
    for (std::size_t k = dims; k-- > 0 && !more;) {
      if (i[k] + 2 < edges[k].size()) {
        i[k]++;
        more = true;
      } else {
        i[k] = 0;
      }
    }
  }
  return cells;
}

// Merges neighbours along dim k that have the same holders.
Cells merge_along(Cells cells, std::size_t k) {
  if (cells.size() < 2) return cells;
  const auto others = [&](const Box& b) {
    Box out = b;
    out[k] = {0, 0};
    return out;
  };
  std::sort(cells.begin(), cells.end(), [&](const auto& a, const auto& b) {
    return std::pair(others(a.first), a.first[k]) < std::pair(others(b.first), b.first[k]);
  });
  Cells merged;
  for (auto& [box, who] : cells) {
    if (!merged.empty()) {
      auto& [last, its] = merged.back();
      if (its == who && others(last) == others(box) && last[k].end == box[k].begin) {
        last[k].end = box[k].end;
        continue;
      }
    }
    merged.emplace_back(std::move(box), std::move(who));
  }
  std::sort(merged.begin(), merged.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return merged;
}

}  // namespace

std::vector<Atom> atoms(std::span<const Shard> all) {
  std::vector<Shard> held;
  for (const Shard& h : all)
    if (volume(h.box) > 0) held.push_back(h);
  if (held.empty()) return {};
  std::vector<Atom> out;
  const std::size_t dims = held.front().box.size();
  if (std::all_of(held.begin(), held.end(), [&](const Shard& h) { return h.box == held.front().box; })) {
    Ranks who;
    for (const Shard& h : held) who.push_back(h.rank);
    make_set(who);
    return {{held.front().box, std::move(who)}};
  }
  Cells cells = cells_of(held);
  for (std::size_t k = 0; k < dims; k++) cells = merge_along(std::move(cells), k);
  for (auto& [box, who] : cells) out.push_back({std::move(box), std::move(who)});
  return out;
}

std::vector<Shard> owners(std::span<const Shard> held, const ChooseOwner& choose, const Ownership& ownership) {
  std::vector<Shard> tiles;
  for (const auto& [atom, who] : atoms(held)) {
    const Index elements = volume(atom);
    if (elements < ownership.whole_below || atom.empty()) {
      tiles.push_back({choose(who, elements), atom});
      continue;
    }
    std::size_t longest = 0;
    for (std::size_t k = 1; k < atom.size(); k++)
      if (atom[k].size() > atom[longest].size()) longest = k;
    const Index inner = elements / atom[longest].size();  // elements per index of that dim
    const Partition share = Partition::even(atom[longest].size(), static_cast<int>(who.size()),
                                            ownership.multiple / std::gcd(inner, ownership.multiple));
    for (std::size_t j = 0; j < who.size(); j++) {
      Box tile = atom;
      const Range part = share.range(static_cast<int>(j));
      tile[longest] = {atom[longest].begin + part.begin, atom[longest].begin + part.end};
      if (volume(tile) > 0) tiles.push_back({who[j], tile});
    }
  }
  std::sort(tiles.begin(), tiles.end());
  return tiles;
}

std::vector<Shard> owners(std::span<const Shard> held) {
  return owners(held, [](const std::vector<int>& ranks, Index) { return ranks.front(); }, {.whole_below = 0});
}

namespace {

void sort_messages(std::vector<BoxMessage>& messages) {
  std::sort(messages.begin(), messages.end(),
            [](const BoxMessage& a, const BoxMessage& b) { return std::tie(a.to, a.box, a.from) < std::tie(b.to, b.box, b.from); });
}

}  // namespace

std::vector<BoxMessage> copies(std::span<const Shard> from, std::span<const Shard> to) {
  std::vector<BoxMessage> out;
  for (const Shard& need : to)
    for (const Shard& have : from)
      if (overlaps(have.box, need.box)) out.push_back({have.rank, need.rank, intersect(have.box, need.box), {}});
  sort_messages(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

namespace {

// The parts of `missing` that the boxes contain.
std::vector<Box> parts_in(const std::vector<Box>& missing, const std::vector<Box>& boxes) {
  std::vector<Box> out;
  for (const Box& m : missing) {
    std::vector<Box> left{m};
    for (const Box& b : boxes) {
      std::vector<Box> rest;
      for (const Box& l : left) {
        if (Box part = intersect(l, b); volume(part) > 0) out.push_back(std::move(part));
        for (Box& r : subtract(l, std::span(&b, 1))) rest.push_back(std::move(r));
      }
      left = std::move(rest);
    }
  }
  return out;
}

Index volume_of(const std::vector<Box>& boxes) {
  Index sum = 0;
  for (const Box& b : boxes) sum += volume(b);
  return sum;
}

}  // namespace

std::vector<BoxMessage> fill(std::span<const Shard> from, std::span<const Shard> to) {
  std::map<int, std::vector<Box>> has;
  for (const Shard& h : from)
    if (volume(h.box) > 0) has[h.rank].push_back(h.box);
  std::map<int, Index> given;
  std::vector<BoxMessage> out;
  for (const Shard& need : to) {
    std::vector<Box> missing;
    if (volume(need.box) > 0) missing.push_back(need.box);
    auto take = [&](int rank, const std::vector<Box>& boxes) {
      for (Box& part : parts_in(missing, boxes)) out.push_back({rank, need.rank, std::move(part), {}});
      std::vector<Box> rest;
      for (const Box& m : missing)
        for (Box& r : subtract(m, boxes)) rest.push_back(std::move(r));
      missing = std::move(rest);
    };
    if (const auto own = has.find(need.rank); own != has.end()) take(need.rank, own->second);
    while (!missing.empty()) {
      int best = -1;
      Index most = 0;
      for (const auto& [rank, boxes] : has) {
        const Index gives = volume_of(parts_in(missing, boxes));
        if (gives > most || (gives > 0 && gives == most && given[rank] < given[best])) {
          best = rank;
          most = gives;
        }
      }
      if (best < 0)
        throw UserError("rank " + std::to_string(need.rank) + " needs " + to_string(missing.front()) + ", which no rank holds");
      given[best] += most;
      take(best, has[best]);
    }
  }
  sort_messages(out);
  return out;
}

std::vector<Box> subtract(const Box& box, std::span<const Box> removed) {
  std::vector<Box> left{box};
  if (volume(box) == 0) return {};
  for (const Box& hole : removed) {
    std::vector<Box> next;
    for (const Box& b : left) {
      const Box cut = intersect(b, hole);
      if (volume(cut) == 0) {
        next.push_back(b);
        continue;
      }
      Box rest = b;
      for (std::size_t k = 0; k < b.size(); k++) {
        Box below = rest, above = rest;
        below[k].end = cut[k].begin;
        above[k].begin = cut[k].end;
        if (volume(below) > 0) next.push_back(below);
        if (volume(above) > 0) next.push_back(above);
        rest[k] = cut[k];
      }
    }
    left = std::move(next);
  }
  return left;
}

std::string to_string(Collective c) {
  static const char* names[] = {"none", "all_gather", "reduce_scatter", "all_reduce", "all_to_all",
                                "halo", "send",       "broadcast",      "gather",     "scatter"};
  return names[static_cast<std::size_t>(c)];
}

}  // namespace motley
