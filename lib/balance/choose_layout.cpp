// SPDX-License-Identifier: Apache-2.0
#include "balance/choose_layout.h"

#include <fmt/format.h>
#include <motley/error.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "balance/baselines.h"
#include "balance/dim_tables.h"
#include "balance/layout_choices.h"
#include "balance/layout_tables.h"
#include "base/units.h"
#include "plan/check_rules.h"
#include "plan/planner.h"
#include "plan/sketch.h"
#include "plan/statistics.h"
#include "program/predict.h"

namespace motley {

namespace {

constexpr double kNearLayouts = 0.15;    // share of the best one's seconds by which others may be slower
constexpr double kNearBefore = 0.5;      // the same before their parts are searched, which may leave slow devices and links out
constexpr std::size_t kMostLayouts = 3;  // layouts whose parts are searched
constexpr double kSketchError = 0.4;     // share of the least sketch's seconds by which others that are predicted may be slower
constexpr double kWorth = 0.005;         // share of the seconds that layers with unlike layouts have to gain

struct Candidate {
  std::vector<int> chosen{};
  LayoutRules rules{};
  bool uniform = false;
  std::optional<PlanData> plan{};  // with the parts of the tables; nothing: it cannot be planned
  double seconds = kNever;         // of its sketch, or predicted where that is not much slower than the best
};

std::optional<PlanData> plan_of(const PricedPasses& priced, const Mesh& mesh, const LayoutRules& resolved, const Profile& profile,
                                DType dtype) {
  try {
    PlanData plan = plan_with(priced.passes, mesh, resolved, profile, dtype, &priced.cost);
    if (undefined_statistics(plan, mesh)) return std::nullopt;
    return plan;
  } catch (const UserError&) {
    return std::nullopt;
  }
}

// Derived dims may leave two cuts of one tensor on one axis.
bool can_be_planned(const Step& step, const Mesh& mesh, const LayoutRules& rules) {
  const Passes passes = passes_for(step, rules);
  return check_rules(passes, mesh, rules).empty() && !check_layouts(passes, mesh, rules);
}

// Those that can be planned; nothing cut can.
std::vector<std::vector<int>> uniform_layouts(const Step& step, const Mesh& mesh, const LayoutChoices& choices) {
  std::vector<std::vector<int>> out = choices.uniform();
  std::erase_if(out, [&](const std::vector<int>& chosen) { return !can_be_planned(step, mesh, choices.rules(chosen)); });
  if (out.empty()) out.emplace_back(choices.bundles().list.size(), 0);
  return out;
}

struct Tabled {
  Tabled(const Passes& passes, const Mesh& mesh, const LayoutChoices& choices, const Cost& cost)
      : tables(passes, mesh, choices, cost) {}
  const LayoutTables tables;
  const std::vector<CostTable> costs = tables.tables();
  const std::vector<int> values = tables.values(), least = least_sum(values, costs).values;  // least: the chosen ones
};

class LayoutChooser {
 public:
  LayoutChooser(const Step& step, const Mesh& mesh, const LayoutRules& rules, const Profile& profile, DType dtype,
                Among among = Among::all)
      : step_(step),
        mesh_(mesh),
        profile_(profile),
        dtype_(dtype),
        among_(among),
        priced_(step, mesh, profile, dtype),
        all_(priced_.of(rules)),
        passes_(all_->passes),
        choices_(passes_, mesh, rules) {}

  std::vector<ChosenLayout> run() {
    const Tabled on(passes_, mesh_, choices_, all_->cost);
    std::vector<Candidate> all = candidates(on);
    std::vector<ChosenLayout> out;
    const bool small = is_small(passes_, mesh_);  // then all are searched: parts of two cuts on tables can be twice too slow
    const double near = all.front().seconds * (1 + kNearBefore);
    for (const Candidate& c : all) {  // the nearest; then others until one fits in the devices' memory
      const bool fitting = std::any_of(out.begin(), out.end(), [](const ChosenLayout& o) { return fits(o.parts.plan); });
      if (out.empty() || (out.size() < kMostLayouts && c.seconds <= near) || small || !fitting) out.push_back(searched(c));
    }
    std::vector<PlansWith> with(static_cast<std::size_t>(mesh_.ranks()));
    const auto count = [&](const ChosenLayout& one) {
      for (std::size_t r = 0; r < one.parts.with.size(); r++) with[r].add(one.parts.with[r]);
    };
    for (const ChosenLayout& one : out) count(one);
    put_best_first(out);
    while (out.size() > kMostLayouts || (out.size() > 1 && !(seconds(out.back()) <= seconds(out.front()) * (1 + kNearLayouts))))
      out.pop_back();
    for (ChosenLayout& one : out)
      if (one.parts.may_improve) {
        search_parts(one, Near::plans);
        count(one);
      }
    put_best_first(out);
    for (ChosenLayout& one : out) {
      if (!profile_.empty()) one.parts.with = with;
      one.layers = layers(on, one);
      for (const ChosenLayout& other : out)
        if (&other != &one && !profile_.empty())
          one.others += fmt::format("{}{} ({})", one.others.empty() ? "" : ", ", other.text, seconds_text(seconds(other)));
    }
    return out;
  }

  std::optional<double> seconds_with_table_parts() {
    const std::vector<Candidate> all = candidates({passes_, mesh_, choices_, all_->cost});
    if (all.empty()) return std::nullopt;
    const double least = all.front().seconds;
    const bool alone = least >= least_alone() && fastest_alone(passes_, mesh_, profile_, dtype_, all_->cost);
    return alone ? std::nullopt : std::optional(least);
  }

  double least_on_tables() const {
    const Tabled on(passes_, mesh_, choices_, all_->cost);
    return sum_of_tables(on.costs, on.values, on.least);
  }

 private:
  // The fastest with the parts of the tables first.
  std::vector<Candidate> candidates(const Tabled& on) {
    std::vector<Candidate> all{{on.least, choices_.rules(on.least)}};
    if (profile_.empty() && can_be_planned(step_, mesh_, all.front().rules)) return all;
    for (const std::vector<int>& chosen : uniform_layouts(step_, mesh_, choices_))
      if (std::none_of(all.begin(), all.end(), [&](const Candidate& c) { return c.chosen == chosen; }))
        all.push_back({chosen, choices_.rules(chosen), true});
    if (among_ == Among::beyond_one_axis) std::erase_if(all, [&](const Candidate& c) { return is_of_one_axis(c.chosen); });
    for (Candidate& c : all) c.plan = plan_of(*priced_.of(c.rules), mesh_, on.tables.with_parts(c.rules), profile_, dtype_);
    predict_nearest(all);
    return all;
  }
  // Whether each layer is cut over all axes together, or not at all.
  bool is_of_one_axis(const std::vector<int>& chosen) const {
    const auto several = [](const Axis& a) { return a.size > 1; };
    const auto axes = static_cast<std::size_t>(std::count_if(mesh_.axes().begin(), mesh_.axes().end(), several));
    for (std::size_t b = 0; b < chosen.size(); b++)
      for (const auto& [dim, over] : at(choices_.of(static_cast<int>(b)), chosen[b]).cuts)
        if (over.size() != axes) return false;
    return true;
  }
  double least_alone() const {
    const std::vector<double> alone = seconds_alone(passes_, mesh_, all_->cost);
    return *std::min_element(alone.begin(), alone.end());
  }
  static void put_best_first(std::vector<ChosenLayout>& out) {
    std::stable_sort(out.begin(), out.end(), [](const ChosenLayout& a, const ChosenLayout& b) { return seconds(a) < seconds(b); });
    const auto simple = std::find_if(out.begin(), out.end(), [](const ChosenLayout& c) { return c.uniform; });
    if (simple != out.end() && seconds(*simple) * (1 - kWorth) < seconds(out.front())) std::rotate(out.begin(), simple, simple + 1);
  }
  // The fastest first. What is cut can be given to one rank alone, however slow its exchanges between all are.
  void predict_nearest(std::vector<Candidate>& all) {
    if (all.empty()) return;
    const auto sort = [&] {
      std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
    };
    for (Candidate& c : all)
      if (c.plan) c.seconds = profile_.empty() ? 0 : Sketcher(*c.plan, mesh_, priced_.of(c.rules)->cost).of(c.plan->rules).seconds;
    if (profile_.empty()) return sort();
    sort();
    const double least = least_alone(), near = all.front().seconds * (1 + kSketchError);
    for (Candidate& c : all) {
      if (!c.plan || c.seconds > near) continue;
      predict(*c.plan, profile_);
      c.seconds = c.plan->step_seconds.value_or(0);
    }
    for (Candidate& c : all)
      if (c.plan && !c.plan->rules.split.empty()) c.seconds = std::min(c.seconds, least);
    sort();
  }
  static double seconds(const ChosenLayout& one) { return fits(one.parts.plan) ? one.parts.plan.step_seconds.value_or(0) : kNever; }

  // Per bundle the change of it alone that costs least on the tables, in proportion to the plan's seconds. What would be computed
  // where it is computed now is no change.
  std::vector<LayerChoice> layers(const Tabled& on, const ChosenLayout& of) const {
    const double now = sum_of_tables(on.costs, on.values, of.chosen);
    std::vector<LayerChoice> out;
    for (std::size_t b = 0; b < of.chosen.size(); b++) {
      const auto bundle = static_cast<int>(b);
      LayerChoice one{choices_.name_of(bundle), choices_.text_of(bundle, of.chosen[b], of.parts.cuts, of.parts.plan)};
      if (one.layers.empty()) continue;
      const int alone = choices_.rank_alone(bundle, of.parts.plan);
      double least = kNever;
      for (int k = 0; k < on.values[b] && !profile_.empty() && now > 0; k++) {
        if (on.tables.same_work(bundle, k, of.chosen[b])) continue;
        if (alone >= 0 && on.tables.rank_alone(bundle, k) == alone) continue;
        std::vector<int> other = of.chosen;
        other[b] = k;
        const double seconds = sum_of_tables(on.costs, on.values, other);
        if (!(seconds < least)) continue;
        least = seconds;
        one.next_best = choices_.text_of(bundle, k);
        one.next_best_seconds = of.parts.plan.step_seconds.value_or(0) * std::max(1.0, seconds / now);
      }
      out.push_back(std::move(one));
    }
    return out;
  }

  ChosenLayout searched(const Candidate& of) {
    ChosenLayout out{choices_.text(of.chosen), of.chosen, of.rules, priced_.of(of.rules), {}, of.uniform};
    search_parts(out, Near::sketches);
    return out;
  }
  void search_parts(ChosenLayout& of, Near near) const {
    of.parts = choose_parts(of.priced->passes, mesh_, of.rules, profile_, dtype_, of.priced->cost, near);
  }

  const Step& step_;
  const Mesh& mesh_;
  const Profile& profile_;
  const DType dtype_;
  const Among among_;
  PassesByRules priced_;
  const std::shared_ptr<const PricedPasses> all_;  // under the given rules
  const Passes& passes_;
  const LayoutChoices choices_;
};

}  // namespace

std::vector<ChosenLayout> choose_layouts(const Step& step, const Mesh& mesh, const LayoutRules& rules, const Profile& profile,
                                         DType dtype, Among among) {
  if (rules.open.any()) return LayoutChooser(step, mesh, rules, profile, dtype, among).run();
  std::vector<ChosenLayout> out(1);
  out.front() = {.rules = rules, .priced = PassesByRules(step, mesh, profile, dtype).of(rules)};
  const PricedPasses& priced = *out.front().priced;
  out.front().parts = choose_parts(priced.passes, mesh, rules, profile, dtype, priced.cost);
  return out;
}

std::optional<double> seconds_with_table_parts(const Step& step, const Mesh& mesh, const LayoutRules& rules, const Profile& profile,
                                               DType dtype, Among among) {
  return LayoutChooser(step, mesh, rules, profile, dtype, among).seconds_with_table_parts();
}

double least_on_tables(const Step& step, const Mesh& mesh, const LayoutRules& rules, const Profile& profile, DType dtype) {
  return LayoutChooser(step, mesh, rules, profile, dtype).least_on_tables();
}

std::vector<LayoutRules> layouts_to_measure(const Step& step, const Mesh& mesh, const LayoutRules& rules) {
  if (!rules.open.any()) return {rules};
  const Passes passes = passes_for(step, rules);
  const LayoutChoices choices(passes, mesh, rules);
  std::vector<LayoutRules> out;
  for (const std::vector<int>& chosen : uniform_layouts(step, mesh, choices)) out.push_back(choices.rules(chosen));
  return out;
}

LayoutRules with_open_parts(LayoutRules resolved, const LayoutRules& given) {
  if (!given.open.any()) return given;
  const auto open = [](std::vector<Rule>& rules, const std::vector<Rule>& said) {
    for (Rule& rule : rules) {
      const auto own = std::find_if(said.begin(), said.end(), [&](const Rule& r) { return r.dim == rule.dim; });
      if (own != said.end())
        rule = *own;
      else if (!rule.axes.names.empty())
        rule.parts = CutBy::profile;
    }
  };
  open(resolved.split, given.split);
  for (auto& [name, rules] : resolved.tensors) {
    const auto said = given.tensors.find(name);
    open(rules, said == given.tensors.end() ? std::vector<Rule>{} : said->second);
  }
  resolved.homes = given.homes;
  return resolved;
}

}  // namespace motley
