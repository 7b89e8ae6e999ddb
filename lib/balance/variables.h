// SPDX-License-Identifier: Apache-2.0
// Rules whose parts the planner chooses.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plan/layouts.h"
#include "plan/plan_data.h"

namespace motley {

// One rule whose parts are to be chosen.
struct Variable {
  std::string tensor{};  // empty: a rule of `split`
  std::string dim{};
  CutBy by = CutBy::profile;
  std::vector<int> axes{};
  Index size = 0;
  int parts = 1;
  std::string why{};
  // Placed layers that follow the rule, and their ranks: their parts are dealt over these.
  std::map<std::string, std::vector<int>> placed{};
};

// One list of sizes, or one per coordinate of the axis `per`.
struct PartLists {
  int per = -1;
  std::vector<std::vector<Index>> lists{};
  auto operator<=>(const PartLists&) const = default;
};
using Assignment = std::vector<PartLists>;  // one per variable

// The rule itself inside `rules`.
Rule* rule_of(LayoutRules& rules, const Variable& v);
// The rules with these parts set; placed layers that follow one of them get a rule of their own, with nothing for other ranks.
LayoutRules with_parts(LayoutRules rules, const Mesh& mesh, const std::vector<Variable>& variables, const Assignment& parts);
// The rules with all cuts made by `by`; nothing: there is no such cut.
std::optional<LayoutRules> cut_by(LayoutRules rules, const Passes& passes, CutBy by);
Assignment even_parts(const std::vector<Variable>& variables);
// Whether the planner chooses the parts of the rule (of some rule, or a layout) by a profile; explicit, even and given shares need
// no profile.
bool is_chosen(const Rule& rule);
bool needs_profile(const LayoutRules& rules);
std::vector<Variable> variables_of(const Passes& passes, const Mesh& mesh, const LayoutRules& rules);
// The index through which a pass's work follows the cut of `v`; -1: there is none.
int following(const PlanData& data, const Mesh& mesh, const Pass& pass, const PassPlan& plan, const Variable& v);
// A pass's work box when the part of `v` has k units: `box` with that index from 0 to k, scaled to the index's size.
Box with_part(Box box, const Pass& pass, int index, const Variable& v, Index k);

}  // namespace motley
