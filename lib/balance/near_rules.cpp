// SPDX-License-Identifier: Apache-2.0
#include "balance/near_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "balance/layout_choices.h"
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
const NearRules* fastest_that_ran(const std::vector<NearRules>& near, const TimedSteps& steps) {
  const NearRules* best = nullptr;
  double least = 0;
  for (const NearRules& one : near)
    if (const TimedPlan* ran = timed_plan(steps, one.rules); ran != nullptr && (best == nullptr || ran->median < least)) {
      best = &one;
      least = ran->median;
    }
  return best;
}

// What is said of the layers, with these parts instead of those that were predicted to be the best.
void say_with(ChosenLayout& layout, const ChosenParts& parts, const LayoutChoices& choices) {
  const double ratio = parts.plan.step_seconds.value_or(0) / layout.parts.plan.step_seconds.value_or(1);
  const std::vector<int> planned = choices.as_planned(layout.chosen, parts.plan);
  auto said = layout.layers.begin();
  for (std::size_t b = 0; b < planned.size(); b++) {
    const auto bundle = static_cast<int>(b);
    if (choices.name_of(bundle).empty()) continue;
    said->cut = choices.text_of(bundle, planned[b], parts.cuts, parts.plan);
    if (said->next_best_seconds) *said->next_best_seconds *= ratio;
    ++said;
  }
}

}  // namespace

std::vector<NearRules> near_rules(const std::vector<ChosenLayout>& layouts, const Mesh& mesh) {
  const ChosenLayout& first = layouts.front();
  const LayoutRules& rules = first.rules;
  const Passes& passes = first.priced->passes;
  const ChosenParts& chosen = first.parts;
  std::vector<NearRules> out{{first.text.empty() ? name_of_rules(chosen.rules) : first.text, chosen.rules}};
  const std::vector<Variable> variables = variables_of(passes, mesh, rules);
  const auto add = [&](LayoutRules near, const std::string& name, std::size_t layout) {
    const auto same = std::find_if(out.begin(), out.end(), [&](const NearRules& one) { return one.rules == near; });
    if (same == out.end() && out.size() < kMostRules)
      out.push_back({name.empty() ? name_of_rules(near) : name, std::move(near), layout});
    else if (same != out.end() && !name.empty())
      same->name = name;
  };
  const bool open = std::any_of(variables.begin(), variables.end(), [](const Variable& v) { return v.by == CutBy::profile; });
  if (open) {
    const auto with = [&](const Assignment& parts) { return with_parts(rules, mesh, variables, parts); };
    add(with(even_over(RankSet(static_cast<std::size_t>(mesh.ranks()), true), chosen.rules, mesh, variables)), "even parts", 0);
    const std::vector<double> seconds = seconds_alone(passes, mesh, first.priced->cost);
    RankSet fastest(seconds.size(), false);
    const auto best = std::min_element(seconds.begin(), seconds.end()) - seconds.begin();
    at(fastest, best) = true;
    add(with(even_over(fastest, chosen.rules, mesh, variables)), mesh.device(static_cast<int>(best)).name + " alone", 0);
  }
  for (std::size_t k = 1; k < layouts.size(); k++) add(layouts[k].parts.rules, layouts[k].text, k);
  for (const Assignment& parts : chosen.near) add(with_parts(rules, mesh, variables, parts), "", 0);
  return out;
}

ChosenLayout choose_by_steps(const Step& step, const Mesh& mesh, const LayoutRules& rules, const Profile& profile, DType dtype,
                             const TimedSteps* steps) {
  std::vector<ChosenLayout> layouts = choose_layouts(step, mesh, rules, profile, dtype);
  if (steps == nullptr) return std::move(layouts.front());
  const std::vector<NearRules> near = near_rules(layouts, mesh);
  const NearRules* fastest = fastest_that_ran(near, *steps);
  if (fastest == nullptr || fastest->rules == layouts.front().parts.rules) return std::move(layouts.front());
  ChosenLayout& layout = layouts[fastest->layout];
  const auto priced = PassesByRules(step, mesh, profile, dtype).of(fastest->rules);
  ChosenParts out = choose_parts(priced->passes, mesh, fastest->rules, profile, dtype, priced->cost);
  if (!fits(out.plan)) return std::move(layouts.front());
  for (std::size_t i = 0; i < out.cuts.size() && i < layout.parts.cuts.size(); i++)
    if (!layout.parts.cuts[i].why.empty()) out.cuts[i].why = "the fastest in real steps";
  if (rules.open.any()) {
    const Passes passes = passes_for(step, rules);
    say_with(layout, out, LayoutChoices(passes, mesh, rules));
  }
  out.notes = std::move(layout.parts.notes);
  out.base = std::move(layout.parts.base);
  out.with = std::move(layout.parts.with);
  layout.parts = std::move(out);
  return std::move(layout);
}

}  // namespace motley
