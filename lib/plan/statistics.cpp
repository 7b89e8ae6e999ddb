// SPDX-License-Identifier: Apache-2.0
#include "plan/statistics.h"

#include <algorithm>

#include "base/at.h"
#include "plan/effective_rules.h"

namespace motley {

namespace {

// Whether the mean that becomes an unbiased variance is undefined for `samples` samples on a rank.
bool is_undefined(const Pass& p, Index samples) {
  return p.own.of >= 0 && p.own.per_value * samples == 1;
}

std::string statistic_text(const Passes& passes, const Mesh& mesh, const Pass& p, int rank) {
  const std::string& dim = at(p.indices, p.own.of).name;
  return "\"" + p.layer + "\" has local statistics, and rank " + std::to_string(rank) + " (" + mesh.device(rank).name +
         ") has only one value per statistic in " + (passes.accumulate > 1 ? "a micro-batch" : "a step") +
         ": its variance is not defined; give it at least two of \"" + dim +
         "\", or none, or take statistics over all samples (\"statistics\": \"global\")";
}

bool by_planner(const EffectiveRule& rule) {
  const auto* by = rule.rule == nullptr ? nullptr : std::get_if<CutBy>(&rule.rule->parts);
  return by != nullptr && *by != CutBy::even;
}

}  // namespace

bool leaves_undefined(const Pass& p, const Work& work) {
  return p.own.per_value == 1 && work.any && is_undefined(p, at(work.box, p.own.terms).size());
}

std::optional<std::string> undefined_statistics(const PlanData& data, const Mesh& mesh) {
  for (std::size_t k = 0; k < data.passes.passes.size(); k++) {
    const Pass& p = data.passes.passes[k];
    for (int r = 0; r < mesh.ranks() && p.own.per_value == 1; r++)
      if (leaves_undefined(p, at(data.pass_plans[k].work, r))) return statistic_text(data.passes, mesh, p, r);
  }
  return std::nullopt;
}

void require_statistics(const Passes& passes, const Mesh& mesh, const LayoutRules& rules, const Layouts& layouts) {
  const EffectiveRules effective(rules, passes);
  for (const Pass& p : passes.passes) {
    if (p.own.per_value != 1 || layouts.placed(p.layer)) continue;
    const Layout& layout = layouts.of(p.writes.tensor);
    const auto d = std::find(p.writes.indices.begin(), p.writes.indices.end(), p.own.of) - p.writes.indices.begin();
    const std::string& dim = layout.shape[static_cast<std::size_t>(d)].name;
    const auto cut = layout.cuts.find(dim);
    const StepTensor& tensor = at(passes.tensors, p.writes.tensor);
    if (cut == layout.cuts.end() || by_planner(effective.rule_for(tensor, dim))) continue;
    for (int r = 0; r < mesh.ranks(); r++) {
      const bool works =
          std::all_of(layout.cuts.begin(), layout.cuts.end(), [&](const auto& one) { return one.second.at(mesh, r).size() > 0; });
      if (works && is_undefined(p, cut->second.at(mesh, r).size()))
        throw LayoutError(tensor.name, dim, statistic_text(passes, mesh, p, r));
    }
  }
}

}  // namespace motley
