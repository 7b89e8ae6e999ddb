// SPDX-License-Identifier: Apache-2.0
// Plans in words: exchanges as people know them, parts, columns.
#pragma once
#include <motley/mesh.h>

#include <set>
#include <string>
#include <vector>

#include "plan/plan_data.h"

namespace motley {

struct Described {
  std::string tensor{};
  Collective kind = Collective::none;
  std::vector<Index> bytes{};  // received by each rank
  bool blocks = false;         // taken apart: kernels run on some of its blocks while others travel
  std::string schedule{};      // "direct", "two_level", "two_level, then direct"
};

// How a tensor moves: to where it rests (terms added, or copied), or from there to its readers.
enum class Hop : std::uint8_t { writing, fill };
// slid: the dims over which windows slide.
Collective kind_of(const TensorPlan& plan, const std::set<std::string>& slid, Hop hop);
bool adds_terms(const TensorPlan& plan);

// Where a tensor lies: a parameter by its rules on the ranks that have a part, an activation where finished values rest.
std::vector<Held> resting_boxes(const PlanData& data, const Mesh& mesh, int tensor);

std::string parts_text(const std::vector<Index>& parts);                // "40/24"
std::string lists_text(const std::vector<std::vector<Index>>& lists);  // "40/24 or 30/34"
// With spaces behind it, one at the least.
std::string padded(std::string text, std::size_t width);

// One entry per tensor and movement, in plan order; a sum that is added and then copied is one all_reduce.
std::vector<Described> describe_exchanges(const PlanData& data, int ranks);

}  // namespace motley
