// SPDX-License-Identifier: Apache-2.0
#include "balance/choose_parts.h"

#include <fmt/format.h>
#include <motley/error.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>

#include "balance/balance_sum.h"
#include "balance/candidate_sizes.h"
#include "balance/choose_tiles.h"
#include "balance/memory_limits.h"
#include "balance/part_bounds.h"
#include "balance/part_trials.h"
#include "base/at.h"
#include "base/units.h"
#include "mesh/parts.h"
#include "plan/formats.h"
#include "plan/parts_text.h"
#include "plan/planner.h"
#include "plan/schedules.h"
#include "plan/sketch.h"

namespace motley {

namespace {

constexpr double kRounding = 1e-9;
constexpr double kWorthRound = 0.01;           // gain of a round of moved units after which there is another one
constexpr double kWorthPlan = 0.002;           // gain by a sketch for which a plan is made
constexpr std::size_t kMostSketchedSets = 24;  // of ranks
constexpr int kSketchRounds = 3;               // each with the picks of a plan of its own
constexpr std::size_t kFinalists = 3;          // plans of which overlap is counted
constexpr double kFewestPlans = 8;             // of a list
constexpr int kTiled = 24;                     // plans that are tiled to fit
constexpr int kRounds = 4, kFitRounds = 12, kSteps = 8;
constexpr double kNear = 0.15;  // share of the chosen plan's seconds; see ChosenParts::near
constexpr std::size_t kMostNear = 8;

std::string milliseconds(double seconds) {
  return fmt::format("{:.3f} ms", seconds * 1e3);
}

constexpr std::size_t kMostInText = 8;  // parts of a list

std::string explain(const DimBalance& best) {
  std::string out = std::string(best.exact ? "exact" : "local search") + ", kernel time " + milliseconds(best.seconds);
  if (!best.next_best.empty()) {
    const std::string list = best.next_best.size() > kMostInText ? "" : " " + parts_text(best.next_best);
    out += fmt::format("; second best{}: {} ({})", list, milliseconds(best.next_best_seconds),
                       price_text(best.next_best_seconds / std::max(best.seconds, 1e-30)));
  }
  return out;
}

class Chooser {
 public:
  Chooser(const Passes& passes, const Mesh& mesh, const LayoutRules& rules, const Profile& profile, DType dtype, const Cost& cost,
          Near near, const KnownParts* start)
      : passes_(passes),
        mesh_(mesh),
        rules_(rules),
        profile_(profile),
        dtype_(dtype),
        variables_(variables_of(passes, mesh, rules)),
        all_(static_cast<std::size_t>(mesh.ranks()), true),
        cost_(cost),
        near_(near),
        start_(start),
        trials_(passes, mesh, rules, profile, dtype, variables_, cost_) {
    const double size = static_cast<double>(passes.passes.size()) * static_cast<double>(mesh.ranks());
    most_plans_ = most_plans(passes, mesh);
    small_ = is_small(passes, mesh);
    most_sketches_ = static_cast<int>(std::clamp(80000 / size, 8.0, 400.0));
  }

  ChosenParts choose() {
    ChosenParts out;
    const bool measured = !profile_.empty();
    Trial best;
    if (!measured || variables_.empty()) {
      if (!variables_.empty()) out.notes.push_back("no profile: parts \"profile\" and \"proportional\" were distributed evenly");
      best = trials_.improved({even_parts(variables_), {}});
      if (measured) overlapped(best);
    } else {
      best = search();
    }
    if (!measured)
      out.notes.push_back(
          "no profile: times are unknown; to rank choices, a device's speed is assumed proportional to its share and a byte sent "
          "to cost as much as 50 flops");
    out.rules = with_parts(rules_, mesh_, variables_, best.of.parts);
    out.plan = std::move(best.plan);
    out.may_improve = may_improve_;
    out.with = std::move(with_);
    out.base = std::move(base_);
    list_near(out, best);
    list_cuts(out, best.of.why);
    return out;
  }

 private:
  // Gives the open parts of each free variable what `list_of(variable, parts of)` says; the other variables stay as in `fixed_`.
  template <class F>
  Proposal proposal(const RankSet& ranks, int per, const std::string& why, F list_of) const {
    Proposal out{fixed_, std::vector<std::string>(variables_.size(), why)};
    for (std::size_t i = 0; i < variables_.size(); i++) {
      const Variable& v = variables_[i];
      if (!trials_.is_free(i)) {
        out.why[i] = "by one speed number per rank";
        continue;
      }
      const bool jagged = per >= 0 && std::find(v.axes.begin(), v.axes.end(), per) == v.axes.end();
      out.parts[i] = {jagged ? per : -1, {}};
      for (int here = 0; here < (jagged ? at(mesh_.axes(), per).size : 1); here++)
        out.parts[i].lists.push_back(list_of(i, PartsOf{ranks, jagged ? per : -1, here}, out.why[i]));
      if (auto& lists = out.parts[i].lists; std::count(lists.begin(), lists.end(), lists.front()) == std::ssize(lists))
        out.parts[i] = {-1, {std::vector<Index>(lists.front())}};
    }
    return out;
  }

  Proposal dealt_evenly(const RankSet& ranks, int per, const std::string& why) const {
    return proposal(ranks, per, why,
                    [&](std::size_t i, const PartsOf& of, std::string&) { return evenly(mesh_, variables_[i], of); });
  }

  // Each variable's best parts on its tables, and its parts by one speed number each; the other variables stay as in `data`.
  std::array<Proposal, 2> by_tables(const PlanData& data, const RankSet& ranks, int per) const {
    std::vector<std::vector<Index>> speeds;
    Proposal best = proposal(ranks, per, "", [&](std::size_t i, const PartsOf& of, std::string& why) {
      const Variable& v = variables_[i];
      const std::vector<SizeTables> groups = tables_of(data, mesh_, cost_, v, of);
      speeds.push_back(by_speed(groups, mesh_, v, of));
      return over(open_parts(mesh_, v, of), v.size, [&](const auto& which) {
        if (groups.empty()) return Partition::even(v.size, static_cast<int>(which.size())).sizes();
        std::vector<SizeTables> tables(groups.size());
        SumOptions options;
        options.steps = candidate_sizes(v.size);
        for (std::size_t part : which) {
          for (std::size_t g = 0; g < groups.size(); g++) tables[g].push_back(groups[g][part]);
          options.caps.push_back(caps_.empty() ? v.size : caps_[i][part]);
        }
        DimBalance found = balance_sum(tables, v.size, options);
        const auto of_all = [&] { return over(open_parts(mesh_, v, of), v.size, [&](const auto&) { return found.next_best; }); };
        if (!found.next_best.empty()) found.next_best = of_all();
        why = explain(found);
        return found.parts;
      });
    });
    auto next = speeds.begin();
    return {std::move(best), proposal(ranks, per, "proportional parts give the fastest step",
                                      [&](std::size_t, const PartsOf&, std::string&) { return *next++; })};
  }

  std::string name_of(const RankSet& ranks) const {
    std::string with, without;
    int inside = 0;
    for (int r = 0; r < mesh_.ranks(); r++) {
      const bool in = at(ranks, r);
      inside += in;
      std::string& list = in ? with : without;
      list += (list.empty() ? "" : ", ") + mesh_.device(r).name;
    }
    return inside == 1 ? "all on " + with + ": no plan tried that shares it is faster" : "without " + without;
  }

  struct Listed {
    double bound = 0;  // seconds: no plan with these parts is faster
    Proposal of{};
  };
  struct SetOfRanks {
    double bound = 0;  // seconds: no plan on these ranks is faster
    RankSet ranks{};
    std::optional<std::vector<Listed>> proposals{};  // made when it is their turn
  };
  // Parts that were compared, by a plan or by a sketch.
  struct Compared {
    Proposal of{};
    double lacking = kNever, seconds = kNever;  // as of a Trial
    std::vector<double> load{};                 // per rank: how full its memory is; of a sketch: busy seconds
  };
  using Compare = std::function<Compared(const Proposal&)>;  // LayoutError: lists that do not tile

  // The sets of ranks that are tried, the least bound first.
  void list_sets() {
    for (RankSet& ranks : rank_sets(mesh_, alone_)) sets_.push_back({bounds_.of(ranks), std::move(ranks)});
    std::stable_sort(sets_.begin(), sets_.end(), [](const SetOfRanks& a, const SetOfRanks& b) { return a.bound < b.bound; });
  }

  // Even, proportional and balanced parts, on several axes also with lists that differ along one of them; the least bound first.
  const std::vector<Listed>& proposals_of(SetOfRanks& set) const {
    if (set.proposals) return *set.proposals;
    std::vector<Listed>& out = set.proposals.emplace();
    const std::string name = set.ranks == all_ ? "" : name_of(set.ranks);
    const bool alone = std::count(set.ranks.begin(), set.ranks.end(), true) == 1;
    auto add = [&](Proposal p) {
      for (std::size_t i = 0; i < variables_.size(); i++)
        if (!trials_.is_free(i))
          continue;
        else if (name.empty())
          p.why[i] = p.why[i].empty() ? "the only cut" : p.why[i];
        else
          p.why[i] = p.why[i].empty() || alone ? name : name + ": " + p.why[i];
      out.push_back({bounds_.of(p.parts, mesh_, variables_), std::move(p)});
    };
    const int axes = mesh_.axes().size() > 1 ? static_cast<int>(mesh_.axes().size()) : 0;
    for (int per = -1; per < axes; per++) {
      for (Proposal& p : by_tables(*base_, set.ranks, per)) add(std::move(p));
      add(dealt_evenly(set.ranks, per, "even parts give the fastest step"));
    }
    std::stable_sort(out.begin(), out.end(), [](const Listed& a, const Listed& b) { return a.bound < b.bound; });
    return out;
  }

  // As if no device had a limit of memory; if that plan exceeds one, again within the limits.
  Trial search() {
    trials_.limits = false;
    Trial best = fastest();
    trials_.limits = true;
    if (best.lacking == 0 && !fits(best.plan)) best = within_limits(std::move(best));  // else statistics are not defined
    overlapped(best);
    return best;
  }

  Trial fastest() {
    fixed_ = even_parts(variables_);
    Trial best = trials_.improved({fixed_, std::vector<std::string>(variables_.size(), "even parts give the fastest step")});
    for (std::size_t i = 0; i < variables_.size(); i++)
      if (!trials_.is_free(i))
        fixed_[i].lists = {by_speed(tables_of(best.plan, mesh_, cost_, variables_[i], {all_}), mesh_, variables_[i], {all_})};
    base_ = best.plan;
    with_.resize(all_.size());
    count_ranks(best);
    if (std::none_of(variables_.begin(), variables_.end(), [](const Variable& v) { return v.by == CutBy::profile; }))
      return trials_.improved(dealt_evenly(all_, -1, ""));
    if (fixed_ == best.of.parts) {
      tried_ = {{fixed_, best.seconds}};
      if (std::isfinite(best.seconds)) keep_finalist(best);
    } else {  // not every rule says even
      best = {};
    }
    alone_ = seconds_alone(passes_, mesh_, cost_);
    const auto first = std::min_element(alone_.begin(), alone_.end());
    RankSet alone(all_.size(), false);
    at(alone, first - alone_.begin()) = true;
    const double fused = complete(dealt_evenly(alone, -1, name_of(alone)), best, true) / *first;
    if (start_ != nullptr) complete(started(), best, true);
    if (std::isfinite(fused)) bounds_ = PartBounds(*base_, mesh_, cost_, variables_, std::min(fused, 1.0));
    list_sets();
    consider(best);
    may_improve_ = small_ && near_ == Near::sketches;
    if (small_ && near_ == Near::plans) {
      improve_by_plans(best);
      return best;
    }
    for (int round = 0; round < kSketchRounds && improved_by_sketches(best); round++) {
    }
    return best;
  }

  Proposal started() const {
    Proposal out;
    LayoutRules resolved = start_->rules;
    for (const Variable& v : variables_) {
      const Rule& rule = *rule_of(resolved, v);
      if (const auto* jagged = std::get_if<Jagged>(&rule.parts))
        out.parts.push_back({mesh_.axis(jagged->per), jagged->of});
      else
        out.parts.push_back({-1, {std::get<Sizes>(rule.parts).of}});
      const auto said = std::find_if(start_->cuts.begin(), start_->cuts.end(), [&](const CutChoice& c) { return c.dim == v.dim; });
      out.why.push_back(said == start_->cuts.end() || said->why.empty() ? "by the tables of layouts" : said->why);
    }
    return out;
  }

  // Parts near the best ones and, for each variable, those of other plans of the list.
  void improve_by_plans(Trial& best) {
    const Compare compare = [&](const Proposal& of) {
      Trial trial = tried(of);
      Compared out = compared(trial);
      take(std::move(trial), best, kRounding);
      return out;
    };
    Compared now = compared(best);
    mix(now, most_plans_, compare);
    move_units(now, most_plans_, compare);
  }

  // The same, compared with the best plan's picks; a plan is made of the fastest. Whether it became the best.
  bool improved_by_sketches(Trial& best) {
    if (!std::isfinite(best.seconds)) return false;
    Sketcher sketches(best.plan, mesh_, cost_);
    const double scale = best.seconds / std::max(sketches.of(best.plan.rules).seconds, 1e-30);
    const Compare compare = [&](const Proposal& of) {
      Sketch sketch = sketches.of(with_parts(rules_, mesh_, variables_, of.parts));
      return Compared{of, 0, sketch.defined ? scale * sketch.seconds : kNever, std::move(sketch.busy)};
    };
    const Compared now = compare(best.of);
    Compared least = now;
    mix(least, most_sketches_, compare);
    move_units(least, most_sketches_, compare);
    if (least.seconds > now.seconds * (1 - kWorthPlan)) return false;
    const double before = best.seconds;
    complete(least.of, best, false);
    return best.seconds < before;
  }

  // From the parts next to the fastest ones that fit, or lack less memory; then the list again; at last tiles for the fastest plans
  // that lack little.
  Trial within_limits(Trial fastest) {
    finalists_.clear();
    tried_.clear();
    with_.assign(all_.size(), {});
    trials_.tiles = false;
    const Assignment full = fastest.of.parts;
    Trial best = fit(tried(std::move(fastest.of)));
    go_back(full, best);
    consider(best);
    improve_by_plans(best);
    trials_.tiles = true;
    int left = kTiled;
    std::vector<Listed> lacking = std::exchange(lacking_, {});
    std::stable_sort(lacking.begin(), lacking.end(), [](const Listed& a, const Listed& b) { return a.bound < b.bound; });
    for (const Listed& one : lacking)
      if (one.bound < best.seconds && left-- > 0) take(tried(one.of), best, kRounding);
    go_back(full, best);
    return best;
  }

  // From parts that lack memory towards those of the best plan, the first that fit; then again from the parts before these.
  void go_back(Assignment full, Trial& best) {
    for (int round = 0; round < kRounds && best.lacking == 0; round++) {
      const Assignment fitting = best.of.parts;
      Assignment lacks = full;
      for (int step = 1; step < kSteps && best.of.parts == fitting; step++) {
        Proposal next{between(full, fitting, static_cast<double>(step) / kSteps), best.of.why};
        if (next.parts == fitting) return;
        Assignment parts = next.parts;
        if (parts != lacks && !take(tried(std::move(next)), best, 0)) lacks = std::move(parts);
      }
      if (best.of.parts == fitting) return;
      full = std::move(lacks);
    }
  }

  // A share of the distance from one list of parts to another.
  Assignment between(const Assignment& from, Assignment to, double share) const {
    for (std::size_t i = 0; i < to.size(); i++)
      for (std::size_t list = 0; list < to[i].lists.size() && to[i].per == from[i].per; list++) {
        std::vector<double> parts;
        for (std::size_t part = 0; part < to[i].lists[list].size(); part++)
          parts.push_back((1 - share) * static_cast<double>(from[i].lists[list][part]) +
                          share * static_cast<double>(to[i].lists[list][part]));
        to[i].lists[list] = Partition::proportional(variables_[i].size, parts).sizes();
      }
    return to;
  }

  // Evaluates the list until none of it can be faster; as many as the step's size allows, if these are not all, of a step that is
  // not small those with the least sketches: kernels alone speak for many ranks, however slow the links between them are.
  void consider(Trial& best) {
    std::vector<std::pair<const SetOfRanks*, const Listed*>> list;
    for (std::size_t k = 0; k < sets_.size() && sets_[k].bound < best.seconds && (small_ || k < kMostSketchedSets); k++)
      for (const Listed& one : proposals_of(sets_[k]))
        if (one.bound < best.seconds && !tried_.contains(one.of.parts)) list.emplace_back(&sets_[k], &one);
    if (!small_ && static_cast<int>(list.size()) > most_plans_) sort_by_sketches(list);
    int left = most_plans_;
    for (const auto& [set, one] : list) {
      if (left == 0) return;
      if (one->bound >= best.seconds || tried_.contains(one->of.parts)) continue;
      complete(one->of, best, true);
      left--;
    }
  }

  // Those of a set, which follow one another, have the picks of a plan of its first.
  void sort_by_sketches(std::vector<std::pair<const SetOfRanks*, const Listed*>>& list) const {
    std::map<const Listed*, double> seconds;
    std::optional<PlanData> first;
    std::optional<Sketcher> sketches;
    const SetOfRanks* of = nullptr;
    for (const auto& [set, one] : list) {
      if (std::exchange(of, set) != set) sketches.reset();
      try {
        const LayoutRules resolved = with_parts(rules_, mesh_, variables_, one->of.parts);
        if (!sketches) sketches.emplace(first.emplace(plan_with(passes_, mesh_, resolved, profile_, dtype_, &cost_)), mesh_, cost_);
        seconds[one] = sketches->of(resolved).seconds;
      } catch (const LayoutError&) {
        seconds[one] = kNever;
      }
    }
    std::stable_sort(list.begin(), list.end(),
                     [&](const auto& a, const auto& b) { return seconds.at(a.second) < seconds.at(b.second); });
  }

  Compared compared(const Trial& trial) const {
    Compared out{trial.of, trial.lacking, trial.seconds, {}};
    for (int r = 0; r < mesh_.ranks(); r++) out.load.push_back(fullness(trial.plan, r));
    return out;
  }

  // Whether the parts were new and not certain to be slower.
  bool compare_with(Compared& best, const Proposal& of, const Compare& compare) {
    if (tried_.contains(of.parts) || bounds_.of(of.parts, mesh_, variables_) >= best.seconds) return false;
    try {
      Compared one = compare(of);
      tried_.insert_or_assign(of.parts, one.seconds);
      if (best.lacking > 0 ? one.lacking < best.lacking : one.seconds < best.seconds * (1 - kRounding)) best = std::move(one);
    } catch (const LayoutError&) {
      tried_.emplace(of.parts, kNever);
    }
    return true;
  }

  // With one variable's parts from another of the list, also from sets of ranks that alone cannot be faster.
  void mix(Compared& best, int left, const Compare& compare) {
    for (std::size_t i = 0; i < variables_.size() && variables_.size() > 1; i++)
      for (SetOfRanks& set : sets_)
        for (const Listed& other : proposals_of(set)) {
          if (left == 0) return;
          Proposal next = best.of;
          next.parts[i] = other.of.parts[i];
          next.why[i] = other.of.why[i];
          if (compare_with(best, next, compare)) left--;
        }
  }

  // Units of one part to another one, first from the rank with the most load to the one with the least, while less memory is
  // lacking or the step is faster.
  void move_units(Compared& best, int left, const Compare& compare) {
    for (double lacking = kNever, seconds = kNever;
         std::isfinite(best.lacking) && (best.lacking < lacking || best.seconds < seconds * (1 - kWorthRound));) {
      lacking = best.lacking, seconds = best.seconds;
      for (std::size_t i = 0; i < variables_.size(); i++)
        for (std::size_t list = 0; list < best.of.parts[i].lists.size() && trials_.is_free(i); list++)
          for (const Proposal& next : moved(best, i, list)) {
            if (left == 0) return;
            if (compare_with(best, next, compare)) left--;
          }
    }
  }

  // All of a part, then each time a third less, down to one unit.
  std::vector<Proposal> moved(const Compared& best, std::size_t i, std::size_t list) const {
    const PartLists& now = best.of.parts[i];
    std::vector<double> load(now.lists[list].size(), 0.0);
    for (int r = 0; r < mesh_.ranks(); r++)
      if (list_of(mesh_, now.per, r) == list) {
        double& most = at(load, part_of(mesh_, variables_[i].axes, r));
        most = std::max(most, at(best.load, r));
      }
    std::vector<std::pair<std::size_t, std::size_t>> pairs;
    for (std::size_t from = 0; from < load.size(); from++)
      for (std::size_t to = 0; to < load.size(); to++)
        if (from != to) pairs.emplace_back(from, to);
    std::stable_sort(pairs.begin(), pairs.end(),
                     [&](const auto& a, const auto& b) { return load[a.first] - load[a.second] > load[b.first] - load[b.second]; });
    std::vector<Proposal> out;
    for (const auto& [from, to] : pairs)
      for (Index units = now.lists[list][from]; units > 0; units -= (units + 2) / 3) {
        Proposal& next = out.emplace_back(best.of);
        next.parts[i].lists[list][from] -= units;
        next.parts[i].lists[list][to] += units;
        next.why[i] = best.lacking > 0 ? "as much as the devices' memory allows"
                                       : "local search: units were moved between ranks while the predicted step got faster";
      }
    return out;
  }

  void keep_finalist(const Trial& trial) {
    finalists_.push_back(trial);
    std::stable_sort(finalists_.begin(), finalists_.end(), [](const Trial& a, const Trial& b) { return a.seconds < b.seconds; });
    if (finalists_.size() > kFinalists) finalists_.resize(kFinalists);
  }

  void count_ranks(const Trial& made) {
    for (std::size_t r = 0; r < with_.size(); r++)
      if (made.plan.predicted[r].seconds > 0) with_[r].add({1, made.seconds});
  }

  // With its picks; kept for the comparisons that follow. LayoutError: lists along an axis that do not tile.
  Trial tried(Proposal of) {
    Trial out = trials_.improved(std::move(of));
    tried_.insert_or_assign(out.of.parts, out.seconds);
    count_ranks(out);
    if (out.lacking > 0 && out.lacking < kTilesSave) lacking_.push_back({*out.plan.step_seconds, out.of});
    return out;
  }

  // The predicted seconds of a proposal. Finalists are of the list alone: neighbours of the fastest would drive out plans of which
  // more is overlapped.
  double complete(const Proposal& of, Trial& best, bool listed) {
    try {
      Trial trial = tried(of);
      if (listed && std::isfinite(trial.seconds)) keep_finalist(trial);
      const double seconds = trial.seconds;
      take(std::move(trial), best, kRounding);
      return seconds;
    } catch (const LayoutError&) {
      tried_.emplace(of.parts, kNever);
      return kNever;
    }
  }

  // The fastest few are compared again with overlap counted.
  void overlapped(Trial& best) {
    const auto counted = [&](Trial one) {
      one = trials_.overlapped(std::move(one));
      count_ranks(one);
      if (const auto known = tried_.find(one.of.parts); known != tried_.end()) known->second = one.seconds;
      return one;
    };
    best = counted(std::move(best));
    for (Trial& one : finalists_)
      if (one.of.parts != best.of.parts) take(counted(std::move(one)), best, kRounding);
  }

  void list_near(ChosenParts& out, const Trial& best) const {
    std::vector<std::pair<double, const Assignment*>> near;
    for (const auto& [parts, seconds] : tried_)
      if (parts != best.of.parts && seconds <= best.seconds * (1 + kNear)) near.emplace_back(seconds, &parts);
    std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::size_t k = 0; k < near.size() && out.near.size() < kMostNear; k++) {
      const Assignment& one = *near[k].second;
      const auto equals_nearly = [&](const Assignment& other) { return nearly_equal(one, other); };
      if (!equals_nearly(best.of.parts) && std::none_of(out.near.begin(), out.near.end(), equals_nearly)) out.near.push_back(one);
    }
  }

  // Whether no part differs by more than a twentieth of its dim: plans of these take the same time but for the machine's noise.
  bool nearly_equal(const Assignment& a, const Assignment& b) const {
    for (std::size_t i = 0; i < variables_.size(); i++) {
      if (a[i].per != b[i].per || a[i].lists.size() != b[i].lists.size()) return false;
      for (std::size_t list = 0; list < a[i].lists.size(); list++)
        for (std::size_t part = 0; part < a[i].lists[list].size(); part++)
          if (20 * std::abs(a[i].lists[list][part] - b[i].lists[list][part]) > variables_[i].size) return false;
    }
    return true;
  }

  // Parts of ranks that lack memory are limited, as if memory were in proportion to them, and the others get the rest.
  Trial fit(Trial now) {
    Trial best;
    for (const Variable& v : variables_) caps_.emplace_back(static_cast<std::size_t>(v.parts), v.size);
    for (int round = 0; round < kFitRounds && now.lacking > 0; round++) {
      for (std::size_t i = 0; i < variables_.size(); i++)
        for (int r = 0; r < mesh_.ranks(); r++) {
          const PartLists& parts = now.of.parts[i];
          const auto part = static_cast<std::size_t>(part_of(mesh_, variables_[i].axes, r));
          const Index units = parts.lists[list_of(mesh_, parts.per, r)][part];
          if (const double full = fullness(now.plan, r); full > 1 && units > 0)
            caps_[i][part] = std::min(units - 1, static_cast<Index>(static_cast<double>(units) / full));
        }
      try {
        Proposal next = std::move(by_tables(now.plan, all_, -1).front());
        if (next.parts == now.of.parts) break;
        std::fill(next.why.begin(), next.why.end(), "as much as the devices' memory allows");
        take(std::exchange(now, tried(std::move(next))), best, 0);
      } catch (const UserError&) {
        break;  // not all units have a place
      }
    }
    caps_.clear();
    take(std::move(now), best, 0);
    return best;
  }

  void list_cuts(ChosenParts& out, const std::vector<std::string>& why) const {
    for (const Rule& r : out.rules.split) {
      if (r.axes.names.empty()) continue;
      CutChoice c{.dim = r.dim};
      for (const std::string& a : r.axes.names) c.axis += (c.axis.empty() ? "" : ",") + a;
      const Cut cut = cut_of(passes_, mesh_, r);
      if (cut.per >= 0) c.per = at(mesh_.axes(), cut.per).name;
      for (const Partition& list : cut.lists) c.parts.push_back(list.sizes());
      for (std::size_t i = 0; i < why.size(); i++)
        if (variables_[i].tensor.empty() && variables_[i].dim == r.dim) c.why = why[i];
      out.cuts.push_back(std::move(c));
    }
  }

  const Passes& passes_;
  const Mesh& mesh_;
  const LayoutRules& rules_;
  const Profile& profile_;
  const DType dtype_;
  std::vector<Variable> variables_;
  RankSet all_;
  const Cost& cost_;
  const Near near_;
  const KnownParts* const start_;
  bool small_ = false, may_improve_ = false;
  PartTrials trials_;
  std::optional<PlanData> base_{};  // even parts
  std::vector<PlansWith> with_{};   // per rank
  std::vector<double> alone_{};     // per rank: seconds of the whole step
  PartBounds bounds_{};
  std::vector<SetOfRanks> sets_{};
  std::map<Assignment, double> tried_{};    // predicted seconds
  std::vector<Trial> finalists_{};          // the fastest
  std::vector<Listed> lacking_{};           // the predicted seconds of those that lack little memory
  Assignment fixed_{};                      // what rules with parts "proportional" require
  std::vector<std::vector<Index>> caps_{};  // per variable and part, once memory does not suffice
  int most_plans_ = 0, most_sketches_ = 0;  // of the list; near the best
};

}  // namespace

bool is_small(const Passes& passes, const Mesh& mesh) {
  return passes.passes.size() * static_cast<std::size_t>(mesh.ranks()) <= 500;
}

int most_plans(const Passes& passes, const Mesh& mesh) {
  return static_cast<int>(std::clamp(20000 / (static_cast<double>(passes.passes.size()) * mesh.ranks()), kFewestPlans, 96.0));
}

bool is_large(const Passes& passes, const Mesh& mesh) {
  return most_plans(passes, mesh) == static_cast<int>(kFewestPlans);
}

Cost cost_for(const Passes& passes, const Mesh& mesh, const Profile& profile, DType dtype) {
  return {passes,  mesh,
          profile, std::vector<double>(static_cast<std::size_t>(mesh.ranks()), 1.0),
          dtype,   common_formats(passes, mesh, dtype)};
}

ChosenParts choose_parts(const Passes& passes, const Mesh& mesh, const LayoutRules& rules, const Profile& profile, DType dtype,
                         const Cost& cost, Near near, const KnownParts* start) {
  return Chooser(passes, mesh, rules, profile, dtype, cost, near, start).choose();
}

}  // namespace motley
