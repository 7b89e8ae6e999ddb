// SPDX-License-Identifier: Apache-2.0
/// @file
/// How one dim is distributed over unequal ranks: the exact integer optimum on measured times. Pure functions of tables.
#pragma once
#include <motley/dims.h>

#include <vector>

namespace motley {
/// @addtogroup planning
/// @{

/// seconds[rank][k]: the seconds of k units of the dim on that rank, k = 0..size. Not finite: the rank cannot take k.
using SizeTables = std::vector<std::vector<double>>;

/// How a dim is distributed, and how good that is.
struct DimBalance {
  std::vector<Index> parts{};      ///< per rank; they sum to the dim's size, zeros are legal
  double seconds = 0;              ///< of the slowest rank
  std::vector<Index> next_best{};  ///< the fastest parts that are slower than these; empty: there are none
  double next_best_seconds = 0;    ///< of the slowest rank, with those
  std::vector<double> idle{};      ///< per rank: seconds it waits for the slowest
  bool exact = true;               ///< balance_dim: always; false in a plan's local search over many ranks
};

/// The parts with the least makespan, the maximum over ranks of seconds[rank][parts[rank]], for any tables, monotone or not. Among
/// equal makespans those with the least sum of all ranks' seconds, then the lexicographically greatest ones (the first ranks fill
/// their steps). caps[rank]: the most units that the rank may take, such as fit its memory; empty: no limit. UserError: no ranks, a
/// table without an entry for each of 0..size, caps that hold less than `size`. Monotone tables: threshold search; else subset sums
/// per threshold, p n^2/64 word operations times log(p n) for p ranks and n units.
DimBalance balance_dim(const SizeTables& seconds, Index size, const std::vector<Index>& caps = {});

/// The seconds of the slowest rank with these parts.
double makespan(const SizeTables& seconds, const std::vector<Index>& parts);

/// The baseline that most systems use: one speed number per rank, size / seconds[rank][size], distributed by largest remainder.
std::vector<Index> proportional_parts(const SizeTables& seconds, Index size);

/// @}
}  // namespace motley
