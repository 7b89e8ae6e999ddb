// SPDX-License-Identifier: Apache-2.0
#include "balance/choose_parts.h"

#include <fmt/format.h>
#include <motley/error.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "balance/balance_sum.h"
#include "balance/candidate_sizes.h"
#include "balance/choose_tiles.h"
#include "balance/memory_limits.h"
#include "balance/part_moves.h"
#include "balance/part_tables.h"
#include "balance/part_trials.h"
#include "base/at.h"
#include "mesh/parts.h"
#include "plan/formats.h"
#include "plan/parts_text.h"
#include "plan/planner.h"
#include "plan/schedules.h"

namespace motley {

namespace {

constexpr double kWorthRound = 0.01;  // gain of a round for which the moves are tried once more
constexpr double kRounding = 1e-9;
constexpr double kWorthImproving = 1.3;  // times the best: a plan slower with another plan's picks gets no picks of its own
constexpr std::size_t kFinalists = 6;
constexpr int kAlone = 8;   // parts, for each of which everything is tried, except for large steps
constexpr int kTiled = 24;  // plans that are tiled to fit
constexpr int kRounds = 4, kLinks = 3, kFitRounds = 12, kSteps = 8;

std::string milliseconds(double seconds) {
  return fmt::format("{:.3f} ms", seconds * 1e3);
}

std::string explain(const DimBalance& best) {
  std::string out = std::string(best.exact ? "exact" : "local search") + ", kernel time " + milliseconds(best.seconds);
  if (!best.next_best.empty()) {
    out += fmt::format("; second best {}: {} (+{:.1f} %)", parts_text(best.next_best), milliseconds(best.next_best_seconds),
                       100 * (best.next_best_seconds / std::max(best.seconds, 1e-30) - 1));
  }
  return out;
}

class Chooser {
 public:
  Chooser(const Passes& passes, const Mesh& mesh, const LayoutRules& rules, const Profile& profile, DType dtype)
      : passes_(passes),
        mesh_(mesh),
        rules_(rules),
        profile_(profile),
        variables_(variables_of(passes, mesh, rules)),
        all_(static_cast<std::size_t>(mesh.ranks()), true),
        cost_(passes, mesh, profile, std::vector<double>(all_.size(), 1.0), dtype, common_formats(passes, mesh, dtype)),
        trials_(passes, mesh, rules, profile, dtype, variables_, cost_) {
    const double size = static_cast<double>(passes.passes.size()) * static_cast<double>(mesh.ranks());
    large_ = 20000 / size < 8;
    improved_plans_ = static_cast<std::size_t>(std::clamp(20000 / size, 8.0, 96.0));
    moved_plans_ = static_cast<int>(std::clamp(60000 / size, 8.0, 480.0));
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
    }
    return out;
  }

  Proposal dealt_evenly(const RankSet& ranks, int per, const std::string& why) const {
    return proposal(ranks, per, why,
                    [&](std::size_t i, const PartsOf& of, std::string&) { return evenly(mesh_, variables_[i], of); });
  }

  Proposal dealt_by_speed(const PlanData& data, const RankSet& ranks, int per, const std::string& why) const {
    return proposal(ranks, per, why, [&](std::size_t i, const PartsOf& of, std::string&) {
      return by_speed(data, mesh_, cost_, variables_[i], of);
    });
  }

  // Each variable's best parts on its tables; the other variables stay as in `data`.
  Proposal balanced(const PlanData& data, const RankSet& ranks, int per) const {
    return proposal(ranks, per, "", [&](std::size_t i, const PartsOf& of, std::string& why) {
      const Variable& v = variables_[i];
      const std::vector<SizeTables> groups = tables_of(data, mesh_, cost_, v, of);
      std::vector<bool> open = open_parts(mesh_, v, of);
      return over(open, v.size, [&](const auto& which) {
        if (groups.empty()) return Partition::even(v.size, static_cast<int>(which.size())).sizes();
        std::vector<SizeTables> tables(groups.size());
        SumOptions options;
        options.steps = candidate_sizes(v.size);
        for (std::size_t part : which) {
          for (std::size_t g = 0; g < groups.size(); g++) tables[g].push_back(groups[g][part]);
          options.caps.push_back(caps_.empty() ? v.size : caps_[i][part]);
        }
        const DimBalance found = balance_sum(tables, v.size, options);
        why = explain(found);
        return found.parts;
      });
    });
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
    return inside == 1 ? with + " alone" : "without " + without;
  }

  // Along which axes lists may differ for these ranks: none (-1), and each axis along which the ranks do not form a grid, where one
  // list for all coordinates would give parts to other ranks.
  std::vector<int> axes_of_lists(const RankSet& ranks) const {
    std::vector<int> out{-1};
    const auto axes = static_cast<int>(mesh_.axes().size());
    std::vector<std::set<int>> here(static_cast<std::size_t>(axes));
    std::ptrdiff_t grid = 1;
    for (int r = 0; r < mesh_.ranks(); r++)
      for (int a = 0; a < axes && at(ranks, r); a++) at(here, a).insert(at(mesh_.coord(r), a));
    for (const auto& coordinates : here) grid *= static_cast<std::ptrdiff_t>(coordinates.size());
    for (int a = 0; a < axes && grid != std::count(ranks.begin(), ranks.end(), true); a++) out.push_back(a);
    return out;
  }

  // The list of proposals: even, proportional and balanced parts on every set of ranks that is tried.
  std::vector<Proposal> listed(const PlanData& base) const {
    std::vector<Proposal> out;
    auto add = [&](Proposal p) {
      if (std::none_of(out.begin(), out.end(), [&](const Proposal& o) { return o.parts == p.parts; })) out.push_back(std::move(p));
    };
    for (const RankSet& ranks : rank_sets(mesh_, seconds_alone(passes_, mesh_, cost_))) {
      const std::string set = ranks == all_ ? "" : name_of(ranks) + ": ";
      for (int per : axes_of_lists(ranks)) {
        Proposal best = balanced(base, ranks, per);
        for (std::size_t i = 0; i < variables_.size(); i++)
          if (trials_.is_free(i)) best.why[i] = set + (best.why[i].empty() ? "the only cut" : best.why[i]);
        add(std::move(best));
        add(dealt_evenly(ranks, per, set + "even parts give the fastest step"));
        add(dealt_by_speed(base, ranks, per, set + "proportional parts give the fastest step"));
      }
    }
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
      if (!trials_.is_free(i)) fixed_[i].lists = {by_speed(best.plan, mesh_, cost_, variables_[i], {all_})};
    const PlanData base = best.plan;
    const std::vector<Proposal> proposals = listed(base);
    if (std::none_of(variables_.begin(), variables_.end(), [](const Variable& v) { return v.by == CutBy::profile; }))
      return trials_.improved(proposals.front());
    if (fixed_ != best.of.parts) best.seconds = best.lacking = kNever;  // not every rule says even
    consider(proposals, base, best);
    go_round(base, best);
    improve(best);
    return best;
  }

  // From the parts next to the fastest ones that fit, or lack less memory; then the list again, those that are fast without limits
  // first; at last tiles for the fastest plans that lack little.
  Trial within_limits(Trial fastest) {
    finalists_.clear();
    trials_.tiles = false;
    const Assignment full = fastest.of.parts;
    Trial best = fit(trials_.improved(std::move(fastest.of)));
    go_back(full, best);
    for (const auto& [seconds, of] : sorted(std::move(listed_))) {
      if (seconds > kWorthImproving * best.seconds) break;
      complete(of, best);
    }
    for (int left = moved_plans_, round = 0; round < kRounds; round++) {
      const double before = best.seconds;
      for (const Proposal& next : one_changed(best))
        if (const Trial trial = trials_.quick(next, best.plan);
            trial.lacking > 0 ? trial.lacking < kTilesSave : trial.seconds < best.seconds)
          complete(next, best);
      move_units(trials_, best, left);
      if (!(best.seconds < before * (1 - kWorthRound))) break;
    }
    trials_.tiles = true;
    int left = kTiled;
    for (const auto& [seconds, of] : sorted(std::move(lacking_)))
      if (seconds < best.seconds && left-- > 0) take(trials_.improved(of), best, kRounding);
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
        if (parts != lacks && !take(trials_.improved(std::move(next)), best, 0)) lacks = std::move(parts);
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

  using Listed = std::vector<std::pair<double, Proposal>>;  // seconds, and the parts of which
  static Listed sorted(Listed list) {
    std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    return list;
  }

  // One variable after the other is changed, and units are moved, while that makes the step faster.
  void improve(Trial& best) {
    int left = moved_plans_;
    for (int round = 0; round < kRounds; round++) {
      const double before = best.seconds;
      consider(one_changed(best), PlanData(best.plan), best);
      move_units(trials_, best, left);
      if (!(best.seconds < before * (1 - kWorthRound))) break;
    }
  }

  // Evaluates all proposals with the picks of `like`; then as many as the step's size allows, the fastest first, with picks of
  // their own.
  void consider(const std::vector<Proposal>& proposals, const PlanData& like, Trial& best) {
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t i = 0; i < proposals.size(); i++) {
      order.emplace_back(0, i);
      if (proposals.size() <= improved_plans_) continue;
      order.back().first = trials_.quick(proposals[i], like).seconds;
    }
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::size_t k = 0; k < std::min(order.size(), improved_plans_); k++) complete(proposals[order[k].second], best);
  }

  void keep_finalist(const Trial& trial) {
    finalists_.push_back(trial);
    std::stable_sort(finalists_.begin(), finalists_.end(), [](const Trial& a, const Trial& b) { return a.seconds < b.seconds; });
    if (finalists_.size() > kFinalists) finalists_.resize(kFinalists);
  }

  // Evaluates a proposal with picks of its own.
  void complete(const Proposal& of, Trial& best) {
    try {
      Trial trial = trials_.improved(of);
      if (std::isfinite(trial.seconds)) keep_finalist(trial);
      Listed& list = trial.lacking > 0 ? lacking_ : listed_;
      const auto is_same = [&](const auto& other) { return other.second.parts == trial.of.parts; };
      if (trial.lacking < kTilesSave && std::none_of(list.begin(), list.end(), is_same))
        list.emplace_back(*trial.plan.step_seconds, trial.of);
      take(std::move(trial), best, kRounding);
    } catch (const LayoutError&) {  // lists along an axis that do not tile
    }
  }

  // The fastest few of the list are compared again with overlap counted, and with one variable changed at a time.
  void overlapped(Trial& best) {
    trials_.overlaps = true;
    best = trials_.again(std::move(best));
    for (Trial& one : finalists_)
      if (one.of.parts != best.of.parts) take(trials_.again(std::move(one)), best, kRounding);
    bool far = false;
    for (int r = 1; r < mesh_.ranks(); r++) far = far || is_far(best.plan, 0, r);
    if (far) consider(one_changed(best), PlanData(best.plan), best);
  }

  // Which ranks have a part of every variable.
  RankSet working(const Assignment& parts) const {
    RankSet out = all_;
    for (int r = 0; r < mesh_.ranks(); r++)
      for (std::size_t i = 0; i < parts.size(); i++) {
        const std::size_t list = list_of(mesh_, parts[i].per, r);
        if (at(parts[i].lists[list], part_of(mesh_, variables_[i].axes, r)) == 0) at(out, r) = false;
      }
    return out;
  }

  // Makes the tables again on a plan, and again on the resulting plan; on several axes also lists that differ along one of them.
  void go_round(const PlanData& base, Trial& best) {
    chains(base, best);
    for (int round = 0; round < kRounds; round++) {
      const double before = best.seconds;
      chains(PlanData(best.plan), best);
      if (!(best.seconds < before * (1 - kGain))) return;
    }
  }
  void chains(const PlanData& start, Trial& best) const {
    for (const auto& [ranks, per] : ways(best.of.parts)) {
      Trial last{{}, start, kNever};
      for (int link = 0; link < kLinks; link++) {
        Proposal next = balanced(last.plan, ranks, per);
        if (next.parts == last.of.parts) break;
        last = trials_.quick(std::move(next), last.plan);
        if (std::isinf(last.seconds)) break;
        if (last.of.parts != best.of.parts && last.seconds < kWorthImproving * best.seconds)
          take(trials_.improved(Proposal(last.of)), best, kGain);
      }
    }
  }
  // Tables for all ranks and, if fewer compute now, for these; with lists that are the same along all axes (-1), or differ along
  // one.
  std::vector<std::pair<RankSet, int>> ways(const Assignment& now) const {
    std::vector<std::pair<RankSet, int>> out;
    const int axes = mesh_.axes().size() > 1 ? static_cast<int>(mesh_.axes().size()) : 0;
    for (int per = -1; per < axes; per++) out.emplace_back(all_, per);
    if (const RankSet some = working(now); some != all_)
      for (int per = -1; per < axes; per++) out.emplace_back(some, per);
    return out;
  }

  // One variable gets other parts: balanced, by speed, even, or everything for one part; the others stay.
  std::vector<Proposal> one_changed(const Trial& best) const {
    std::vector<Proposal> out, tables;
    for (const auto& [ranks, per] : ways(best.of.parts)) tables.push_back(balanced(best.plan, ranks, per));
    for (std::size_t i = 0; i < variables_.size(); i++) {
      if (!trials_.is_free(i)) continue;
      const Variable& v = variables_[i];
      auto add = [&](PartLists lists, const std::string& why) {
        Proposal next = best.of;
        next.parts[i] = std::move(lists);
        next.why[i] = why;
        const bool known = next.parts == best.of.parts ||
                           std::any_of(out.begin(), out.end(), [&](const Proposal& o) { return o.parts == next.parts; });
        if (!known) out.push_back(std::move(next));
      };
      for (const Proposal& of : tables) add(of.parts[i], of.why[i]);
      add({-1, {by_speed(best.plan, mesh_, cost_, v, {all_})}}, "proportional parts give the fastest step");
      add({-1, {evenly(mesh_, v, {all_})}}, "even parts give the fastest step");
      for (std::size_t part = 0; part < static_cast<std::size_t>(v.parts) && v.parts <= kAlone && !large_; part++) {
        std::vector<Index> alone(static_cast<std::size_t>(v.parts), 0);
        alone[part] = v.size;
        add({-1, {std::move(alone)}}, "not splitting it gives the fastest step");
      }
    }
    return out;
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
        Proposal next = balanced(now.plan, all_, -1);
        if (next.parts == now.of.parts) break;
        std::fill(next.why.begin(), next.why.end(), "as much as the devices' memory allows");
        take(std::exchange(now, trials_.improved(std::move(next))), best, 0);
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
  std::vector<Variable> variables_;
  RankSet all_;
  Cost cost_;
  PartTrials trials_;
  std::vector<Trial> finalists_{};          // the fastest of the list
  Assignment fixed_{};                      // what rules with parts "proportional" require
  Listed listed_{}, lacking_{};             // with picks of their own: that fit, that lack memory
  std::vector<std::vector<Index>> caps_{};  // per variable and part, once memory does not suffice
  bool large_ = false;                      // a large step: its plans take so long to make that few are tried
  std::size_t improved_plans_ = 0;          // number of plans made for the list
  int moved_plans_ = 0;                     // number of plans made by moving units
};

}  // namespace

ChosenParts choose_parts(const Passes& passes, const Mesh& mesh, const LayoutRules& rules, const Profile& profile, DType dtype) {
  return Chooser(passes, mesh, rules, profile, dtype).choose();
}

}  // namespace motley
