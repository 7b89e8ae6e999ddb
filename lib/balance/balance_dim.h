// SPDX-License-Identifier: Apache-2.0
// How one dim is distributed over unequal ranks: the exact integer optimum on measured staircases. Pure functions of tables.
#pragma once
#include <motley/dims.h>

#include <vector>

namespace motley {

// seconds[rank][k]: the seconds of k units of the dim on that rank, k = 0..size. Not finite: the rank cannot take k.
using SizeTables = std::vector<std::vector<double>>;

struct DimBalance {
  std::vector<Index> parts{};      // sums to the dim's size; zeros are legal
  double seconds = 0;              // of the slowest rank (balance_sum: of all groups)
  std::vector<Index> next_best{};  // the fastest cut that is slower than this one; empty: there is none
  double next_best_seconds = 0;
  std::vector<double> idle{};  // per rank: seconds it waits for the slowest
  bool exact = true;           // false: a local optimum (balance_sum, many ranks)
};

// The cut with the least makespan, max over ranks of seconds[rank][parts[rank]]; any tables, monotone or not. Among equal makespans
// the one with the least sum of all ranks' seconds, then with the lexicographically greatest parts (first ranks fill their steps).
// caps[rank]: most units that fit the rank's memory. UserError: the caps hold less than `size`. Monotone tables: threshold search;
// else subset sums per threshold, p n^2/64 word operations times log(p n).
DimBalance balance_dim(const SizeTables& seconds, Index size, const std::vector<Index>& caps = {});

double makespan(const SizeTables& seconds, const std::vector<Index>& parts);

// The baseline that most systems use: one speed number per rank, size / seconds[rank][size], distributed by largest remainder.
std::vector<Index> proportional_parts(const SizeTables& seconds, Index size);

}  // namespace motley
