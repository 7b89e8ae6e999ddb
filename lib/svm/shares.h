// SPDX-License-Identifier: Apache-2.0
// How many samples each rank gets, by the measured seconds of an iteration's work on different numbers of them.
#pragma once
#include <motley/balance_dim.h>
#include <motley/partition.h>

#include "svm/solver.h"

namespace motley::svm {

// Seconds of the same work on so many samples, ascending.
struct Staircase {
  std::vector<Index> sizes{};
  std::vector<double> seconds{};
  double at(Index samples) const;  // on a line between two sizes; 0 samples take none
};

// Of every rank, measured by all at the same time. Collective.
template <class T>
std::vector<Staircase> measured_staircases(Tools& tools, const std::vector<Index>& samples, RowSource<T>& source);

// How many samples each rank checks in the same time: numbers whose ratios count. Collective.
std::vector<double> measured_check_speeds(Tools& tools, const std::vector<Index>& samples);

// The parts with the least seconds of the slowest rank.
Partition balanced(const std::vector<Staircase>& ranks, Index samples);

// The ids 0..size-1, shuffled (so that every rank has samples of all kinds, and elimination shrinks all shares equally), in parts
// of these proportions.
Shares dealt(Index size, const Partition& proportions);

}  // namespace motley::svm
