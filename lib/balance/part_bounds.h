// SPDX-License-Identifier: Apache-2.0
// Which parts are not expected to give a faster plan than one that is known.
#pragma once
#include "balance/part_tables.h"

namespace motley {

// From the seconds that each rank would take for all of what the cuts divide: kernels alone, taking a part for no cheaper than its
// share. Parts that fit a cache that the whole does not can be cheaper.
class PartBounds {
 public:
  PartBounds() = default;  // no bounds: 0
  // base: a plan of these variables. fused: of the sum of its kernels' seconds, what a plan on one rank takes.
  PartBounds(const PlanData& base, const Mesh& mesh, const Cost& cost, const std::vector<Variable>& variables, double fused);

  // No plan on these ranks alone is faster: they share every pass in the best proportion.
  double of(const RankSet& ranks) const;
  // No plan with these parts is faster: of several cuts over an axis a rank has at least the smallest part.
  double of(const Assignment& parts, const Mesh& mesh, const std::vector<Variable>& variables) const;

 private:
  std::vector<std::vector<double>> passes_{};  // per divided pass, per rank
  std::vector<double> sums_{};                 // per rank
};

}  // namespace motley
