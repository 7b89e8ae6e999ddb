// SPDX-License-Identifier: Apache-2.0
#include "plan/rule_conflicts.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/at.h"
#include "base/json.h"
#include "plan/effective_rules.h"
#include "plan/layouts.h"

namespace motley {

std::string quoted(const std::string& name) {
  return "\"" + name + "\"";
}

namespace {

class ConflictFinder {
 public:
  ConflictFinder(const RuleSubject& subject, const Passes& passes, const LayoutRules& rules, const std::set<std::string>& refused)
      : subject_(subject),
        passes_(passes),
        rules_(rules),
        effective_(rules, passes),
        refused_(refused),
        sizes_(reference_sizes(passes)),
        batch_(batch_dim(passes)) {}

  std::vector<RuleComplaint> run() {
    check_shared_axes();
    if (subject_.mesh != nullptr) check_placed_parts();
    return std::move(out_);
  }

 private:
  void complain(const std::string& pointer, const std::string& text) { out_.push_back({pointer, text}); }

  // The rule that cuts this dim of this tensor; nothing: no rule does.
  std::optional<EffectiveRule> cutting_rule(const StepTensor& t, const std::string& dim) const {
    const EffectiveRule found = effective_.rule_for(t, dim);
    return found.cuts() && !refused_.contains(found.pointer()) ? std::optional(found) : std::nullopt;
  }

  // Inputs, a layer's outputs, and a layer's inner tensors, to which its rules apply too.
  static bool has_one_layout(const StepTensor& t) {
    return t.of < 0 && (t.role == TensorRole::input || t.role == TensorRole::label || t.role == TensorRole::activation);
  }

  // One complaint per set of dims and axis, however many layers have it.
  void check_shared_axes() {
    struct Clash {
      std::string pointer{}, dims{}, axis{}, lines{};
      std::set<std::string> each{};  // of the dims
      std::vector<std::string> tensors{};
    };
    std::vector<Clash> clashes;
    for (const StepTensor& t : passes_.tensors) {
      if (!has_one_layout(t)) continue;
      const std::string& subject = t.layer.empty() ? t.name : t.layer;
      std::vector<std::pair<std::string, EffectiveRule>> kept;
      Clash clash;
      for (const Dim& d : t.shape.dims()) {
        const auto e = cutting_rule(t, d.name);
        if (!e || (e->derived != nullptr && t.name != subject)) continue;  // inside a layer the complaint is about the source dim
        const std::string axis = shared_axis(kept, *e->rule);
        if (axis.empty()) {
          kept.emplace_back(d.name, *e);
          continue;
        }
        if (clash.dims.empty())
          for (const auto& [name, other] : kept)
            if (Reader::is_one_of(axis, other.rule->axes.names)) {
              clash.dims = quoted(name);
              clash.each = {name};
            }
        clash.dims += ", " + quoted(d.name);
        clash.each.insert(d.name);
        clash.axis = axis;
        clash.pointer = e->pointer();
        clash.lines += (clash.lines.empty() ? "" : ", ") + quoted(d.name) + ": null";
      }
      if (clash.dims.empty()) continue;
      auto same = std::find_if(clashes.begin(), clashes.end(), [&](const Clash& c) {
        return c.axis == clash.axis && c.each == clash.each &&
               (c.pointer == clash.pointer || Reader::is_one_of(subject, c.tensors));
      });
      if (same == clashes.end()) same = clashes.insert(clashes.end(), clash);
      if (!Reader::is_one_of(subject, same->tensors)) same->tensors.push_back(subject);
    }
    for (const Clash& c : clashes) {
      std::string names, lines;
      for (const std::string& t : c.tensors) {
        names += (names.empty() ? "" : ", ") + quoted(t);
        lines += (lines.empty() ? "" : ", ") + quoted(t) + ": { " + c.lines + " }";
      }
      complain(c.pointer, "the dims " + c.dims + " of " + names + " cannot both be cut over one axis, " + quoted(c.axis) +
                              "; say which of them is not cut there, as \"tensors\": { " + lines + " }");
    }
  }

  static std::string shared_axis(const std::vector<std::pair<std::string, EffectiveRule>>& kept, const Rule& rule) {
    for (const auto& [name, other] : kept)
      for (const std::string& axis : rule.axes.names)
        if (Reader::is_one_of(axis, other.rule->axes.names)) return axis;
    return "";
  }

  // The cut by explicit parts; nothing for other parts.
  std::optional<Cut> explicit_cut(const Rule& rule, Index size_here) const {
    std::vector<std::vector<Index>> lists;
    Cut cut;
    if (const auto* sizes = std::get_if<Sizes>(&rule.parts)) {
      lists = {sizes->of};
    } else if (const auto* jagged = std::get_if<Jagged>(&rule.parts)) {
      lists = jagged->of;
      cut.per = subject_.mesh->axis(jagged->per);
    } else {
      return std::nullopt;
    }
    for (const std::string& a : rule.axes.names) cut.axes.push_back(subject_.mesh->axis(a));
    const Index size = sizes_.at(rule.dim);
    for (const auto& parts : lists)
      cut.lists.push_back(rule.dim == batch_ ? Partition::proportional(size, std::vector<double>(parts.begin(), parts.end()))
                                             : Partition::of(parts));
    return cut.scaled(size, size_here);
  }

  void check_placed_parts() {
    const Mesh& mesh = *subject_.mesh;
    for (const auto& [layer, on] : rules_.places) {
      const std::string here = "/place/" + pointer_token(layer);
      const int output = passes_.find(layer);
      if (refused_.contains(here) || output < 0) continue;
      const StepTensor& t = at(passes_.tensors, output);
      std::vector<std::pair<std::string, Cut>> cuts;
      for (const Dim& d : t.shape.dims())
        if (const auto e = cutting_rule(t, d.name); e && e->derived == nullptr)
          if (auto cut = explicit_cut(*e->rule, d.size)) cuts.emplace_back(d.name, std::move(*cut));
      for (int r = 0; r < mesh.ranks() && !cuts.empty(); r++) {
        if (Reader::is_one_of(mesh.device(r).name, on)) continue;
        if (std::any_of(cuts.begin(), cuts.end(), [&](const auto& c) { return c.second.at(mesh, r).size() == 0; })) continue;
        const auto& [dim, cut] = cuts.front();
        complain(here, quoted(layer) + " is not placed on " + quoted(mesh.device(r).name) + ", but the parts of " + quoted(dim) +
                           " give that device " + std::to_string(cut.at(mesh, r).size()) +
                           " of its output; give it 0, or write \"tensors\": { " + quoted(layer) + ": { " + quoted(dim) +
                           ": null } }");
        break;
      }
    }
  }

  const RuleSubject& subject_;
  const Passes& passes_;
  const LayoutRules& rules_;
  const EffectiveRules effective_;
  const std::set<std::string>& refused_;
  const std::map<std::string, Index> sizes_;
  const std::string batch_;
  std::vector<RuleComplaint> out_{};
};

}  // namespace

std::vector<RuleComplaint> conflicts_of_rules(const RuleSubject& subject, const Passes& passes, const LayoutRules& rules,
                                              const std::set<std::string>& refused) {
  return ConflictFinder(subject, passes, rules, refused).run();
}

}  // namespace motley
