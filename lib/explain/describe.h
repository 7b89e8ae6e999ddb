// SPDX-License-Identifier: Apache-2.0
// Plans in words: exchanges under their common names, parts, columns.
#pragma once
#include <motley/mesh.h>

#include <set>
#include <string>
#include <vector>

#include "plan/parts_text.h"
#include "plan/plan_data.h"

namespace motley {

struct Described {
  std::string tensor{};
  Collective kind = Collective::none;
  std::vector<Index> bytes{};  // received by each rank
  bool tiled = false;          // kernels run on some of its tiles while others are sent
  std::string schedule{};      // "direct", "two_level", "two_level, then direct"
};

// The collective that a hop amounts to; `add` and `copy` count as one. slid: the dims over which windows slide.
Collective kind_of(const TensorPlan& plan, const std::set<std::string>& slid, Hop TensorPlan::*hop);
bool adds_terms(const TensorPlan& plan);

// Where a tensor is stored: a parameter by its rules on the ranks that have a part, an activation where its finished values are
// stored.
std::vector<Shard> resting_boxes(const PlanData& data, const Mesh& mesh, int tensor);

// After predicted seconds of a mesh with modelled devices: " (modelled)"; " (partly modelled)" beside other devices; else empty.
std::string modelled_words(const Mesh& mesh);

// "no work for a100[3], cpu: the best plan tried with it takes 16.2 ms, 1.04x": a line for each reason. Empty: all devices work.
std::vector<std::string> idle_lines(const PlanData& data, const Mesh& mesh);
// "12 %", "< 1 %", "0 %".
std::string percent_text(double share);
// The text followed by spaces, at least one.
std::string padded(std::string text, std::size_t width);

// One entry per tensor and hop, in plan order; a sum that is added and then copied is one all_reduce. Bytes are per step.
std::vector<Described> describe_exchanges(const PlanData& data, int ranks);

}  // namespace motley
