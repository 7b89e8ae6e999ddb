// SPDX-License-Identifier: Apache-2.0
// The seconds of a dim's parts on each rank, by size: kernels alone. And which sets of ranks to try without the others.
#pragma once
#include <motley/balance_dim.h>
#include <motley/partition.h>

#include <vector>

#include "balance/variables.h"
#include "mesh/parts.h"
#include "plan/cost.h"

namespace motley {

using RankSet = std::vector<bool>;  // per rank

// Whose parts are considered: those of `ranks`, on one coordinate of an axis (jagged cuts) or on all (per = -1).
struct PartsOf {
  RankSet ranks{};
  int per = -1, at = -1;
  bool has(const Mesh& mesh, int rank) const {
    return ranks[static_cast<std::size_t>(rank)] && (per < 0 || list_of(mesh, per, rank) == static_cast<std::size_t>(at));
  }
};

// Per part: whether one of these ranks has it.
std::vector<bool> open_parts(const Mesh& mesh, const Variable& v, const PartsOf& of);

// Per group of passes between two waits, per part, per size 0..n of the dim: the seconds of the part's slowest rank; other cuts as
// they are in `data`.
std::vector<SizeTables> tables_of(const PlanData& data, const Mesh& mesh, const Cost& cost, const Variable& v, const PartsOf& of);

// The sum over all groups.
SizeTables summed(const std::vector<SizeTables>& groups, const Variable& v);

// A list over the open parts alone; the others get nothing. If no part is open, no rank gets any, whatever the list.
template <class F>
std::vector<Index> over(const std::vector<bool>& open, Index size, F list_of) {
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < open.size(); i++)
    if (open[i]) which.push_back(i);
  if (which.empty()) return Partition::even(size, static_cast<int>(open.size())).sizes();
  std::vector<Index> out(open.size(), 0);
  const std::vector<Index> list = list_of(which);
  for (std::size_t i = 0; i < which.size(); i++) out[which[i]] = list[i];
  return out;
}
std::vector<Index> evenly(const Mesh& mesh, const Variable& v, const PartsOf& of);
// Parts by one speed number each: the part's seconds for the whole dim in all passes that follow its cut, by its tables.
std::vector<Index> by_speed(const std::vector<SizeTables>& groups, const Mesh& mesh, const Variable& v, const PartsOf& of);

// All ranks first; then each rank alone, every prefix by speed (of more than 16 ranks: the fastest alone and prefixes of powers of
// two), all without one host; for up to four ranks every set.
std::vector<RankSet> rank_sets(const Mesh& mesh, const std::vector<double>& seconds);

}  // namespace motley
