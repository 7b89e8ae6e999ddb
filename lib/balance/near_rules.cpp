// SPDX-License-Identifier: Apache-2.0
#include "balance/near_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "balance/part_tables.h"
#include "balance/timed_steps.h"
#include "base/at.h"

namespace motley {

namespace {

constexpr std::size_t kMostRules = 8;

// What was searched is even over these ranks; what follows one speed number per rank stays as it was chosen.
Assignment even_over(const RankSet& ranks, LayoutRules chosen, const Mesh& mesh, const std::vector<Variable>& variables) {
  Assignment out;
  for (const Variable& v : variables) {
    const auto* given = std::get_if<Sizes>(&rule_of(chosen, v)->parts);
    out.push_back({-1, {v.by != CutBy::profile && given != nullptr ? given->of : evenly(mesh, v, {ranks})}});
  }
  return out;
}

// "filters 32/8, rows 10/6"
std::string name_of_rules(const LayoutRules& resolved) {
  std::string out;
  for (const Rule& r : resolved.split)
    if (const auto* parts = std::get_if<Sizes>(&r.parts); parts != nullptr && !r.axes.names.empty())
      out += fmt::format("{}{} {}", out.empty() ? "" : ", ", r.dim, fmt::join(parts->of, "/"));
  return out.empty() ? "other parts" : out;
}

// The least measured of these; nothing: none of them ran.
std::optional<LayoutRules> fastest_that_ran(const std::vector<NearRules>& near, const TimedSteps& steps) {
  const LayoutRules* best = nullptr;
  double least = 0;
  for (const NearRules& one : near)
    if (const TimedPlan* ran = timed_plan(steps, one.rules); ran != nullptr && (best == nullptr || ran->median < least)) {
      best = &one.rules;
      least = ran->median;
    }
  return best == nullptr ? std::nullopt : std::optional(*best);
}

}  // namespace

std::vector<NearRules> near_rules(const ChosenParts& chosen, const Passes& passes, const Mesh& mesh, const LayoutRules& rules,
                                  const Cost& cost) {
  std::vector<NearRules> out{{name_of_rules(chosen.rules), chosen.rules}};
  const std::vector<Variable> variables = variables_of(passes, mesh, rules);
  if (std::none_of(variables.begin(), variables.end(), [](const Variable& v) { return v.by == CutBy::profile; })) return out;
  const auto add = [&](const Assignment& parts, const std::string& name) {
    LayoutRules near = with_parts(rules, mesh, variables, parts);
    const auto same = std::find_if(out.begin(), out.end(), [&](const NearRules& one) { return one.rules == near; });
    if (same == out.end() && out.size() < kMostRules)
      out.push_back({name.empty() ? name_of_rules(near) : name, std::move(near)});
    else if (same != out.end() && !name.empty())
      same->name = name;
  };
  add(even_over(RankSet(static_cast<std::size_t>(mesh.ranks()), true), chosen.rules, mesh, variables), "even parts");
  const std::vector<double> seconds = seconds_alone(passes, mesh, cost);
  RankSet fastest(seconds.size(), false);
  const auto first = std::min_element(seconds.begin(), seconds.end()) - seconds.begin();
  at(fastest, first) = true;
  add(even_over(fastest, chosen.rules, mesh, variables), mesh.device(static_cast<int>(first)).name + " alone");
  for (const Assignment& parts : chosen.near) add(parts, "");
  return out;
}

ChosenParts choose_by_steps(const Passes& passes, const Mesh& mesh, const LayoutRules& rules, const Profile& profile, DType dtype,
                            const Cost& cost, const TimedSteps* steps) {
  ChosenParts chosen = choose_parts(passes, mesh, rules, profile, dtype, cost);
  if (steps == nullptr) return chosen;
  const std::optional<LayoutRules> fastest = fastest_that_ran(near_rules(chosen, passes, mesh, rules, cost), *steps);
  if (!fastest || *fastest == chosen.rules) return chosen;
  ChosenParts out = choose_parts(passes, mesh, *fastest, profile, dtype, cost);
  if (!fits(out.plan)) return chosen;
  for (std::size_t i = 0; i < out.cuts.size() && i < chosen.cuts.size(); i++)
    if (!chosen.cuts[i].why.empty()) out.cuts[i].why = "the fastest in real steps";
  out.notes = std::move(chosen.notes);
  out.base = std::move(chosen.base);
  return out;
}

}  // namespace motley
