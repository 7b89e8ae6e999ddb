// SPDX-License-Identifier: Apache-2.0
#include "balance/variables.h"

#include <algorithm>
#include <numeric>

#include "base/at.h"
#include "mesh/parts.h"
#include "plan/infer_required.h"

namespace motley {

Rule* rule_of(LayoutRules& rules, const Variable& v) {
  for (Rule& r : v.tensor.empty() ? rules.split : rules.tensors[v.tensor])
    if (r.dim == v.dim) return &r;
  return nullptr;
}

namespace {

Parts parts_of(const Mesh& mesh, const PartLists& p) {
  if (p.per < 0) return Sizes{p.lists.front()};
  return Jagged{p.lists, at(mesh.axes(), p.per).name};
}

// The rule of a placed layer: the parts dealt over its ranks; no cut where no list does that.
Rule rule_of_placed(const Mesh& mesh, Rule rule, const Variable& v, PartLists p, const std::vector<int>& placed) {
  Cut cut;
  cut.axes = v.axes;
  cut.per = p.per;
  for (std::size_t here = 0; here < p.lists.size(); here++) {
    std::vector<Index>& sizes = p.lists[here];
    const std::vector<bool> open = parts_of_ranks(mesh, v.axes, p.per, static_cast<int>(here), placed);
    if (std::find(open.begin(), open.end(), true) != open.end())
      sizes = dealt({sizes.begin(), sizes.end()}, open, std::accumulate(sizes.begin(), sizes.end(), Index{0})).sizes();
    cut.lists.push_back(Partition::of(sizes));
  }
  if (reaches_others(mesh, cut, placed)) return {rule.dim, Axes{}};
  rule.parts = parts_of(mesh, p);
  return rule;
}

}  // namespace

LayoutRules with_parts(LayoutRules rules, const Mesh& mesh, const std::vector<Variable>& variables, const Assignment& parts) {
  for (std::size_t i = 0; i < variables.size(); i++) {
    const PartLists& p = parts[i];
    Rule& rule = *rule_of(rules, variables[i]);
    rule.parts = parts_of(mesh, p);
    for (const auto& [layer, ranks] : variables[i].placed) {
      const Rule its = rule_of_placed(mesh, rule, variables[i], p, ranks);
      if (layer == variables[i].tensor)
        rule = its;
      else if (its != rule)
        rules.tensors[layer].push_back(its);
    }
  }
  return rules;
}

std::optional<LayoutRules> cut_by(LayoutRules rules, const Passes& passes, CutBy by) {
  const auto sizes = reference_sizes(passes);
  bool any = false;
  auto change = [&](Rule& r) {
    if (r.axes.names.empty() || !sizes.contains(r.dim)) return;
    r.parts = by;
    any = true;
  };
  for (Rule& r : rules.split) change(r);
  for (auto& [name, list] : rules.tensors)
    for (Rule& r : list) change(r);
  return any ? std::optional(rules) : std::nullopt;
}

Assignment even_parts(const std::vector<Variable>& variables) {
  Assignment out;
  for (const Variable& v : variables) out.push_back({-1, {Partition::even(v.size, v.parts).sizes()}});
  return out;
}

bool is_chosen(const Rule& rule) {
  const auto* by = std::get_if<CutBy>(&rule.parts);
  return by != nullptr && *by != CutBy::even && !rule.axes.names.empty();
}

bool needs_profile(const LayoutRules& rules) {
  const auto any = [](const std::vector<Rule>& list) { return std::any_of(list.begin(), list.end(), is_chosen); };
  return rules.open.any() || any(rules.split) ||
         std::any_of(rules.tensors.begin(), rules.tensors.end(), [&](const auto& of) { return any(of.second); });
}

std::vector<Variable> variables_of(const Passes& passes, const Mesh& mesh, const LayoutRules& rules) {
  const auto sizes = reference_sizes(passes);
  std::vector<Variable> out;
  auto add_all = [&](const std::string& tensor, const std::vector<Rule>& list) {
    for (const Rule& r : list) {
      const auto size = sizes.find(r.dim);
      if (!is_chosen(r) || size == sizes.end()) continue;
      Variable v{tensor, r.dim, std::get<CutBy>(r.parts), {}, size->second, 1, {}, {}};
      for (const std::string& a : r.axes.names) {
        v.axes.push_back(mesh.axis(a));
        v.parts *= at(mesh.axes(), v.axes.back()).size;
      }
      for (const auto& [layer, ranks] : ranks_of_places(mesh, rules)) {
        const int output = passes.find(layer);
        const auto own = rules.tensors.find(layer);
        const bool has_own = own != rules.tensors.end() &&
                             std::any_of(own->second.begin(), own->second.end(), [&](const Rule& o) { return o.dim == r.dim; });
        if (output >= 0 && at(passes.tensors, output).shape.has(r.dim) && (tensor == layer || (tensor.empty() && !has_own)))
          v.placed.emplace(layer, ranks);
      }
      out.push_back(std::move(v));
    }
  };
  add_all("", rules.split);
  for (const auto& [name, list] : rules.tensors) add_all(name, list);
  return out;
}

int following(const PlanData& data, const Mesh& mesh, const Pass& pass, const PassPlan& plan, const Variable& v) {
  std::vector<PassOperand> operands = pass.reads;
  operands.push_back(pass.writes);
  for (const PassOperand& o : operands) {
    const Layout& layout = at(data.tensors, o.tensor).layout;
    auto cut = layout.cuts.find(v.dim);
    if (cut == layout.cuts.end() || cut->second.axes != v.axes) continue;
    const int index = o.indices[layout.shape.position(v.dim)];
    bool follows = true, any = false;
    for (int r = 0; r < mesh.ranks(); r++) {
      const Work& w = at(plan.work, r);
      if (!w.any) continue;
      any = true;
      follows = follows && at(w.box, index) == cut->second.at(mesh, r);
    }
    if (any && follows) return index;
  }
  return -1;
}

Box with_part(Box box, const Pass& pass, int index, const Variable& v, Index k) {
  auto size = [&](int i) { return at(pass.indices, i).size; };
  for (const Window& w : pass.windows)  // windows that bound the index, or that it bounds
    for (const Window& other : pass.windows)
      if ((w.made == index || w.read == index) && other.made == w.made)
        for (int end : {other.made, other.read}) at(box, end) = {0, size(end)};
  at(box, index) = {0, (k * size(index) + v.size - 1) / v.size};
  infer_required(pass, box);
  return box;
}

}  // namespace motley
