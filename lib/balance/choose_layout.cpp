// SPDX-License-Identifier: Apache-2.0
#include "balance/choose_layout.h"

#include <fmt/format.h>
#include <motley/error.h>

#include <algorithm>
#include <numeric>
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
constexpr double kNearListed = 0.3;      // the same before parts near those of the list, and other choices, are compared
constexpr double kNearBefore = 0.5;      // the same before their parts are searched, which may leave slow devices and links out
constexpr std::size_t kMostLayouts = 3;  // layouts whose parts are searched
constexpr double kSketchError = 0.4;     // share of the least sketch's seconds by which others that are predicted may be slower
constexpr double kWorth = 0.005;         // share of the seconds that layers with unlike layouts have to gain
constexpr double kWorthChange = 0.001;   // share of the seconds that a round of changes has to gain
constexpr double kEquallyFast = 1e-9;    // share of the seconds that is rounding
constexpr int kChangeRounds = 3;         // of changes of the fastest layout; of a large step one

struct Candidate {
  std::vector<int> chosen{};
  LayoutRules rules{};
  bool uniform = false;
  Weights weights = Weights::as_chosen;
  std::optional<PlanData> plan{};                // with the parts of the tables; nothing: it cannot be planned
  double seconds = kNever;                       // of its sketch, or predicted where that is not much slower than the best
  std::optional<std::vector<CutChoice>> cuts{};  // of the layout that was changed, whose parts it has; nothing: of none
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

// The parts of the first rule with these axes and this dim; of some tensor's rules, if it has one, else of any.
const Parts* parts_of(const LayoutRules& rules, const std::string& tensor, const Rule& like) {
  const auto found = [&](const std::vector<Rule>& list) -> const Parts* {
    const auto rule =
        std::find_if(list.begin(), list.end(), [&](const Rule& r) { return r.dim == like.dim && r.axes == like.axes; });
    return rule == list.end() ? nullptr : &rule->parts;
  };
  const auto own = rules.tensors.find(tensor);
  const Parts* out = own == rules.tensors.end() ? nullptr : found(own->second);
  if (out == nullptr) out = found(rules.split);
  for (auto other = rules.tensors.begin(); out == nullptr && other != rules.tensors.end(); ++other) out = found(other->second);
  return out;
}

// `rules` with the parts that `from` has for them.
LayoutRules with_parts_of(const LayoutRules& from, LayoutRules rules) {
  const auto resolve = [&](const std::string& tensor, std::vector<Rule>& list) {
    for (Rule& rule : list)
      if (const Parts* parts = is_chosen(rule) ? parts_of(from, tensor, rule) : nullptr; parts != nullptr) rule.parts = *parts;
  };
  resolve("", rules.split);
  for (auto& [name, list] : rules.tensors) resolve(name, list);
  return rules;
}

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
        choices_(passes_, mesh, rules),
        large_(is_large(passes_, mesh)),
        small_(is_small(passes_, mesh)),
        with_(static_cast<std::size_t>(mesh.ranks())) {}

  std::vector<ChosenLayout> run() {
    const Tabled on(passes_, mesh_, choices_, all_->cost);
    std::vector<Candidate> all = candidates(on);
    std::vector<ChosenLayout> out;
    const double near = all.front().seconds * (1 + kNearBefore);
    const std::vector<int> by_batch = choices_.uniform().front();
    for (const Candidate& c : all) {  // the nearest and what a user would guess; then others until one fits in the devices' memory
      const bool fitting = std::any_of(out.begin(), out.end(), [](const ChosenLayout& o) { return fits(o.parts.plan); });
      if (out.empty() || (out.size() < kMostLayouts && c.seconds <= near) || small_ || !fitting || (c.chosen == by_batch && c.plan))
        out.push_back(searched(c, Near::sketches));
    }
    keep_best(out, kNearListed);
    if (!profile_.empty()) improve(on, out);
    keep_best(out, kNearLayouts);
    if (!profile_.empty()) out.erase(std::unique(out.begin(), out.end(), equally_fast), out.end());
    for (ChosenLayout& one : out) {
      if (!profile_.empty()) one.parts.with = with_;
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
    const auto plan = [&](Candidate& c) {
      c.plan = plan_of(*priced_.of(c.rules), mesh_, on.tables.with_parts(c.rules), profile_, dtype_);
    };
    for (Candidate& c : all) plan(c);
    predict_nearest(all);
    for (std::size_t k = 0, strict = large_ ? std::min<std::size_t>(all.size(), 1) : all.size(); k < strict; k++)
      if (LayoutRules free = choices_.rules(all[k].chosen, Weights::as_is_cheaper); free != all[k].rules) {
        all.push_back({all[k].chosen, std::move(free), all[k].uniform, Weights::as_is_cheaper});
        plan(all.back());
      }
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
  // Then they are one plan under two names: all on one device, and the like.
  static bool equally_fast(const ChosenLayout& a, const ChosenLayout& b) {
    return std::max(seconds(a), seconds(b)) <= std::min(seconds(a), seconds(b)) * (1 + kEquallyFast);
  }
  static void put_best_first(std::vector<ChosenLayout>& out) {
    std::stable_sort(out.begin(), out.end(), [](const ChosenLayout& a, const ChosenLayout& b) { return seconds(a) < seconds(b); });
    const auto simple = std::find_if(out.begin(), out.end(), [](const ChosenLayout& c) { return c.uniform; });
    if (simple != out.end() && seconds(*simple) * (1 - kWorth) < seconds(out.front())) std::rotate(out.begin(), simple, simple + 1);
  }
  static void keep_best(std::vector<ChosenLayout>& out, double near) {
    put_best_first(out);
    while (out.size() > kMostLayouts || (out.size() > 1 && !(seconds(out.back()) <= seconds(out.front()) * (1 + near))))
      out.pop_back();
  }

  // Changes of one bundle, and parts, in turn.
  void improve(const Tabled& on, std::vector<ChosenLayout>& out) {
    for (std::size_t k = 0, listed = small_ ? out.size() : 0; k < listed; k++) add_changed(on, out[k], Near::sketches, out);
    keep_best(out, kNearLayouts);
    for (ChosenLayout& one : out)
      if (one.parts.may_improve) search_parts(one, Near::plans, KnownParts{one.parts.rules, one.parts.cuts});
    for (int round = 0; round < (large_ ? 1 : kChangeRounds); round++) {
      put_best_first(out);
      if (!add_changed(on, out.front(), Near::plans, out)) break;
    }
  }

  // False: no change makes the step faster, or they lead to a layout that is already there and is as fast.
  bool add_changed(const Tabled& on, const ChosenLayout& from, Near near, std::vector<ChosenLayout>& out) {
    const std::optional<Candidate> found = changed(on, from);
    if (!found) return false;
    const auto there = std::find_if(out.begin(), out.end(), [&](const ChosenLayout& one) { return one.rules == found->rules; });
    if (there == out.end())
      out.push_back(searched(*found, near));
    else if (found->seconds < seconds(*there))
      *there = searched(*found, near);
    else
      return false;
    return true;
  }

  // Changes of one bundle with the other parts as they are, those that cost least on the tables first, each a plan, while the step
  // gets faster.
  std::optional<Candidate> changed(const Tabled& on, const ChosenLayout& from) {
    std::vector<std::pair<int, int>> which;
    for (std::size_t b = 0; b < from.chosen.size(); b++)
      for (int k = 0; k < on.values[b]; k++)
        if (k != from.chosen[b]) which.emplace_back(static_cast<int>(b), k);
    const auto with = [](std::vector<int> chosen, const std::pair<int, int>& change) {
      at(chosen, change.first) = change.second;
      return chosen;
    };
    std::vector<double> price;
    for (const auto& change : which) price.push_back(sum_of_tables(on.costs, on.values, with(from.chosen, change)));
    std::vector<std::size_t> order(which.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return price[a] < price[b]; });
    const double now = sum_of_tables(on.costs, on.values, from.chosen);
    if (large_) std::erase_if(order, [&](std::size_t i) { return price[i] >= now; });  // a plan takes long
    order.resize(std::min(order.size(), static_cast<std::size_t>(most_plans(passes_, mesh_))));
    Candidate best{from.chosen, from.rules, false, from.weights, from.parts.plan, seconds(from)};
    for (const std::size_t i : order) {
      Candidate next{with(best.chosen, which[i]), {}, false, best.weights};
      next.cuts = from.parts.cuts;
      next.rules = choices_.rules(next.chosen, next.weights);
      next.plan = plan_of(*priced_.of(next.rules), mesh_, on.tables.with_parts(with_parts_of(best.plan->rules, next.rules)),
                          profile_, dtype_);
      if (!next.plan) continue;
      predict(*next.plan, profile_);
      next.seconds = fits(*next.plan) ? *next.plan->step_seconds : kNever;
      for (std::size_t r = 0; r < with_.size(); r++)
        if (next.plan->predicted[r].seconds > 0) with_[r].add({1, next.seconds});
      if (next.seconds < best.seconds) best = std::move(next);
    }
    return best.seconds < seconds(from) * (1 - kWorthChange) ? std::optional(std::move(best)) : std::nullopt;
  }

  // The fastest first. What is cut can be given to one rank alone, however slow its exchanges between all are.
  void predict_nearest(std::vector<Candidate>& all) {
    if (all.empty()) return;
    const auto sort = [&] {
      std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
    };
    for (Candidate& c : all)
      if (c.plan && c.seconds == kNever)
        c.seconds = profile_.empty() ? 0 : Sketcher(*c.plan, mesh_, priced_.of(c.rules)->cost).of(c.plan->rules).seconds;
    if (profile_.empty()) return sort();
    sort();
    const double least = least_alone(), near = all.front().seconds * (1 + kSketchError);
    for (Candidate& c : all) {
      if (!c.plan || c.plan->step_seconds || c.seconds > near) continue;
      predict(*c.plan, profile_);
      c.seconds = c.plan->step_seconds.value_or(0);
    }
    for (Candidate& c : all)
      if (c.plan && !c.plan->rules.split.empty()) c.seconds = std::min(c.seconds, least);
    sort();
  }
  static double seconds(const ChosenLayout& one) { return fits(one.parts.plan) ? one.parts.plan.step_seconds.value_or(0) : kNever; }

  // Per bundle, as the plan cuts it, the change of it alone that costs least on the tables, in proportion to the plan's seconds.
  // What would be computed where it is computed now is no change.
  std::vector<LayerChoice> layers(const Tabled& on, const ChosenLayout& of) const {
    const std::vector<int> planned = choices_.as_planned(of.chosen, of.parts.plan);
    const double now = sum_of_tables(on.costs, on.values, planned);
    std::vector<LayerChoice> out;
    for (std::size_t b = 0; b < planned.size(); b++) {
      const auto bundle = static_cast<int>(b);
      LayerChoice one{choices_.name_of(bundle), choices_.text_of(bundle, planned[b], of.parts.cuts, of.parts.plan)};
      if (one.layers.empty()) continue;
      const int alone = choices_.rank_alone(bundle, of.parts.plan);
      double least = kNever;
      for (int k = 0; k < on.values[b] && !profile_.empty() && now > 0; k++) {
        if (on.tables.same_work(bundle, k, planned[b])) continue;
        if (alone >= 0 && on.tables.rank_alone(bundle, k) == alone) continue;
        std::vector<int> other = planned;
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

  // From the parts of a layout that was changed.
  ChosenLayout searched(const Candidate& of, Near near) {
    ChosenLayout out{{}, of.chosen, of.rules, priced_.of(of.rules), {}, of.uniform, of.weights};
    search_parts(out, near, of.cuts ? std::optional(KnownParts{of.plan->rules, *of.cuts}) : std::nullopt);
    out.text = choices_.text(choices_.as_planned(of.chosen, out.parts.plan));
    return out;
  }
  void search_parts(ChosenLayout& of, Near near, const std::optional<KnownParts>& start = {}) {
    of.parts = choose_parts(of.priced->passes, mesh_, of.rules, profile_, dtype_, of.priced->cost, near, start ? &*start : nullptr);
    for (std::size_t r = 0; r < of.parts.with.size(); r++) with_[r].add(of.parts.with[r]);
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
  const bool large_;             // a complete plan takes so long that few are made
  const bool small_;             // all layouts are searched: parts of two cuts on tables can be twice too slow
  std::vector<PlansWith> with_;  // per rank: of all that was tried
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
