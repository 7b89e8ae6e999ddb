// SPDX-License-Identifier: Apache-2.0
// Rules with parts "profile" or "proportional" -> rules with given parts.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "balance/dim_tables.h"
#include "balance/variables.h"
#include "plan/cost.h"
#include "plan/plan_data.h"

namespace motley {

// The plans that were made in which a rank computes something.
struct PlansWith {
  int made = 0;
  double seconds = kNever;  // the least predicted; none fits in the devices' memory: kNever
  void add(const PlansWith& others) {
    made += others.made;
    seconds = std::min(seconds, others.seconds);
  }
};

struct ChosenParts {
  LayoutRules rules{};             // every part given
  PlanData plan{};                 // the plan under these rules, predicted
  std::optional<PlanData> base{};  // the plan of even parts, predicted, if parts were searched
  // Tried, predicted within 15 % of the chosen one's seconds, the fastest first, without the chosen one and what is nearly
  // equal to it or to one before (no part differs by more than a twentieth of its dim); at most 8.
  std::vector<Assignment> near{};
  std::vector<PlansWith> with{};  // per rank; empty: nothing was searched
  std::vector<CutChoice> cuts{};
  std::vector<std::string> notes{};
  bool may_improve = false;  // Near::plans would have gone on
};

// Parts that are known to be good, and why each was chosen.
struct KnownParts {
  LayoutRules rules{};  // every part given
  std::vector<CutChoice> cuts{};
};

// At most 500 passes times ranks: a complete plan takes little, and a sketch, or a table, says less of kernels as small as its are.
bool is_small(const Passes& passes, const Mesh& mesh);
// Complete plans that one list of a search makes: the fewer, the larger the step, but 8 at least, of which a large step has no
// more.
int most_plans(const Passes& passes, const Mesh& mesh);
bool is_large(const Passes& passes, const Mesh& mesh);

// How parts near the best of the list are compared where the step is small; else always by sketches.
enum class Near : std::uint8_t { sketches, plans };

// With a profile: the least predicted of a list of whole plans in virtual time: on all ranks, on each rank alone, on every prefix
// of the ranks by speed, on all without one host, and (with up to four ranks) on every set of them; each with even, proportional,
// and best parts on staircase tables of the kernels (exact on these tables where balance_sum says so), on several axes also with
// lists that differ along one. No plan is made where kernels alone (part_bounds.h) take longer than the best plan so far.
// Then the best gets one variable's parts from another of the list, and units move between parts, each a plan where the step is
// small; else compared by sketches (plan/sketch.h), and a plan is made of the fastest.
// Limits of memory are looked at only if that plan exceeds one: then the search goes on from parts near it that fit.
// Without a profile: even. `cost`: cost_for() these arguments. start: parts for the same rules, tried before the list; nullptr:
// none are known. Pure.
ChosenParts choose_parts(const Passes& passes, const Mesh& mesh, const LayoutRules& rules, const Profile& profile, DType dtype,
                         const Cost& cost, Near near = Near::plans, const KnownParts* start = nullptr);
// Of the profile; without one all ranks are equally fast.
Cost cost_for(const Passes& passes, const Mesh& mesh, const Profile& profile, DType dtype);

}  // namespace motley
