// SPDX-License-Identifier: Apache-2.0
#include "plan/choose_parts.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>

#include "plan/balance_sum.h"
#include "plan/candidate_sizes.h"
#include "plan/cost.h"
#include "plan/describe.h"
#include "plan/planner.h"
#include "plan/schedules.h"
#include "plan/variables.h"

namespace motley {

namespace {

constexpr int kLessRounds = 5, kFitRounds = 8;
constexpr double kLess = 0.8;  // of what it had, for a rank whose memory does not suffice; what helps in no such round is nothing at all

bool travels(const TensorPlan& t) {
  for (const auto* hop : {&t.first, &t.second, &t.third})
    for (const BoxMessage& m : *hop)
      if (m.from != m.to) return true;
  return false;
}

// Seconds per group of passes between two waits, per part, per size 0..n of the dim. Other cuts as they are in `data`.
std::vector<SizeTables> tables_of(const PlanData& data, const Mesh& mesh, const Cost& cost, const Variable& v) {
  std::vector<Index> sizes = candidate_sizes(v.size);
  if (sizes.size() > 96) sizes = candidate_sizes(v.size, 96);
  std::vector<SizeTables> groups;
  bool open = false;
  for (std::size_t p = 0; p < data.passes.passes.size(); p++) {
    const Pass& pass = data.passes.passes[p];
    const PassPlan& plan = data.pass_plans[p];
    const auto t = static_cast<std::size_t>(pass.writes.tensor);
    const int index = plan.work.empty() ? -1 : following(data, mesh, pass, plan, v);
    if (index >= 0) {
      if (!open) groups.emplace_back(static_cast<std::size_t>(v.parts), std::vector<double>(static_cast<std::size_t>(v.size) + 1, 0.0));
      open = true;
      const auto first = std::find_if(plan.work.begin(), plan.work.end(), [](const Work& w) { return w.any; });
      for (int part = 0; part < v.parts; part++) {
        std::vector<std::pair<Index, double>> points;
        for (Index k : sizes) {
          double slowest = 0;
          for (int r = 0; r < mesh.ranks(); r++) {
            if (part_of(mesh, v.axes, r) != part) continue;
            const Work& own = plan.work[static_cast<std::size_t>(r)];
            const auto box = with_part(own.any ? own.box : first->box, pass, index, v, k);
            slowest = std::max(slowest, cost.pass(r, static_cast<int>(p), box));
          }
          points.emplace_back(k, slowest);
        }
        const std::vector<double> table = step_table(points, v.size);
        auto& sum = groups.back()[static_cast<std::size_t>(part)];
        for (std::size_t k = 0; k < sum.size(); k++) sum[k] += table[k];
      }
    }
    if (data.passes.writers_of(pass.writes.tensor).back() == static_cast<int>(p) && travels(data.tensors[t])) open = false;
  }
  return groups;
}

SizeTables summed(const std::vector<SizeTables>& groups, const Variable& v) {
  SizeTables out(static_cast<std::size_t>(v.parts), std::vector<double>(static_cast<std::size_t>(v.size) + 1, 0.0));
  for (const SizeTables& g : groups)
    for (std::size_t i = 0; i < out.size(); i++)
      for (std::size_t k = 0; k < out[i].size(); k++) out[i][k] += g[i][k];
  return out;
}

std::vector<Index> all_on(const Variable& v, int part) {
  std::vector<Index> parts(static_cast<std::size_t>(v.parts), 0);
  parts[static_cast<std::size_t>(part)] = v.size;
  return parts;
}

std::string explain(const DimBalance& best) {
  char text[160];
  std::snprintf(text, sizeof text, "its kernels %.3f ms", best.seconds * 1e3);
  std::string out = text;
  if (!best.next_best.empty()) {
    std::snprintf(text, sizeof text, "; next best %s: %.3f ms (+%.1f %%)", parts_text(best.next_best).c_str(), best.next_best_seconds * 1e3,
                  100 * (best.next_best_seconds / std::max(best.seconds, 1e-30) - 1));
    out += text;
  }
  return out;
}

class Chooser {
 public:
  Chooser(const Passes& passes, const Mesh& mesh, const LayoutRules& rules, const Profile& profile, DType dtype)
      : passes_(passes), mesh_(mesh), rules_(rules), profile_(profile), dtype_(dtype), variables_(variables_of(passes, mesh, rules)) {}

  Told choose() {
    Told out;
    out.rules = told_even(rules_, variables_);
    if (profile_.empty() || variables_.empty()) {
      if (!variables_.empty()) out.notes.push_back("no profile: parts \"profile\" and \"proportional\" were dealt evenly");
      out.plan = planned(out.rules);
      if (!profile_.empty()) out.baselines = baselines_of(rules_);
    } else {
      search(out);
    }
    if (profile_.empty())
      out.notes.push_back("no profile: a rank's speed is taken as its share of the parts, a byte as 50 flops of the fastest rank; seconds are unknown");
    list_cuts(out);
    return out;
  }

 private:
  PlanData planned(const LayoutRules& told) const {
    PlanData data = plan_with(passes_, mesh_, told, profile_, dtype_);
    predict(data, profile_);
    if (is_routed(data) && !fits(data)) {  // no room for what a rank would hand on
      go_straight(data);
      predict(data, profile_);
    }
    return data;
  }
  // Not finite where a rank's memory does not suffice.
  double seconds_of(const PlanData& data) const {
    return fits(data) ? data.step_seconds.value_or(0) : std::numeric_limits<double>::infinity();
  }

  void search(Told& out) {
    const PlanData base = planned(out.rules);
    std::vector<DimBalance> best;
    std::vector<std::vector<SizeTables>> groups_of;
    LayoutRules exact = out.rules, proportional = out.rules;
    std::vector<double> alone(static_cast<std::size_t>(mesh_.ranks()), 0.0);
    const Cost cost(base.passes, mesh_, profile_, std::vector<double>(static_cast<std::size_t>(mesh_.ranks()), 1.0), dtype_, base.formats);
    for (Variable& v : variables_) {
      const std::vector<SizeTables> groups = tables_of(base, mesh_, cost, v);
      const SizeTables sum = summed(groups, v);
      groups_of.push_back(groups);
      SumOptions options;
      options.steps = candidate_sizes(v.size);
      best.push_back(groups.empty() ? DimBalance{Partition::even(v.size, v.parts).sizes(), 0, {}, 0, {}, true} : balance_sum(groups, v.size, options));
      tell(proportional, v, groups.empty() ? best.back().parts : proportional_parts(sum, v.size));
      tell(exact, v, v.by == CutBy::profile ? best.back().parts : std::get<Sizes>(rule_of(proportional, v)->parts).of);
      v.why = v.by == CutBy::profile ? explain(best.back()) : "by one speed number per rank";
      for (int r = 0; r < mesh_.ranks(); r++) alone[static_cast<std::size_t>(r)] += sum[static_cast<std::size_t>(part_of(mesh_, v.axes, r))].back();
    }
    const int fastest = static_cast<int>(std::min_element(alone.begin(), alone.end()) - alone.begin());
    LayoutRules single = out.rules;
    for (const Variable& v : variables_) tell(single, v, all_on(v, part_of(mesh_, v.axes, fastest)));

    const PlanData proportional_plan = planned(proportional), single_plan = planned(single);
    out.baselines = {base.step_seconds, proportional_plan.step_seconds, single_plan.step_seconds};
    out.plan = planned(exact);
    const bool free = std::any_of(variables_.begin(), variables_.end(), [](const Variable& v) { return v.by == CutBy::profile; });
    const LayoutRules even_rules = out.rules;
    out.rules = exact;
    if (!free) return;
    auto offer = [&](const LayoutRules& told, const PlanData& plan, const std::string& why) {
      if (!(seconds_of(plan) < seconds_of(out.plan) * (1 - 1e-9))) return;
      out.rules = told;
      out.plan = plan;
      for (Variable& v : variables_)
        if (v.by == CutBy::profile) v.why = why;
    };
    const bool all_free = std::all_of(variables_.begin(), variables_.end(), [](const Variable& v) { return v.by == CutBy::profile; });
    if (all_free) {
      offer(even_rules, base, "even is the fastest for the whole step");
      offer(proportional, proportional_plan, "proportional is the fastest for the whole step");
      offer(single, single_plan, "the fastest rank alone is faster than any cut");
    }
    refine(out, best, fastest);
    fit(out, groups_of);
  }

  // Ranks whose memory does not suffice get less, until it does or nothing is left to give.
  void fit(Told& out, const std::vector<std::vector<SizeTables>>& groups_of) {
    std::vector<std::vector<Index>> caps;  // per variable and part
    for (const Variable& v : variables_) caps.emplace_back(static_cast<std::size_t>(v.parts), v.size);
    for (int round = 0; round < kFitRounds && !std::isfinite(seconds_of(out.plan)); round++) {
      LayoutRules told = out.rules;
      bool changed = false;
      try {
        for (std::size_t i = 0; i < variables_.size(); i++) {
          Variable& v = variables_[i];
          if (v.by != CutBy::profile || groups_of[i].empty()) continue;
          const std::vector<Index> now = std::get<Sizes>(rule_of(out.rules, v)->parts).of;
          SumOptions options;
          options.steps = candidate_sizes(v.size);
          for (int r = 0; r < mesh_.ranks(); r++) {
            const auto part = static_cast<std::size_t>(part_of(mesh_, v.axes, r));
            const double has = static_cast<double>(mesh_.device(r).memory_bytes), needs = static_cast<double>(out.plan.predicted[static_cast<std::size_t>(r)].memory_bytes);
            if (has > 0 && needs > has) caps[i][part] = round < kLessRounds ? static_cast<Index>(static_cast<double>(now[part]) * std::min(kLess, has / needs)) : 0;
          }
          options.caps = caps[i];
          const std::vector<Index> parts = balance_sum(groups_of[i], v.size, options).parts;
          changed = changed || parts != now;
          tell(told, v, parts);
          v.why = "as much as the devices' memory takes";
        }
      } catch (const UserError&) {
        return;  // what is asked for does not fit; the plan says where
      }
      if (!changed) return;
      out.rules = told;
      out.plan = planned(told);
    }
  }

  // Dim by dim: the next best cut, and the fastest rank alone, on the whole step.
  void refine(Told& out, const std::vector<DimBalance>& best, int fastest) {
    for (std::size_t i = 0; i < variables_.size(); i++) {
      Variable& v = variables_[i];
      if (v.by != CutBy::profile) continue;
      std::vector<std::vector<Index>> others{all_on(v, part_of(mesh_, v.axes, fastest)), best[i].parts};
      if (!best[i].next_best.empty()) others.push_back(best[i].next_best);
      for (const auto& parts : others) {
        if (parts == std::get<Sizes>(rule_of(out.rules, v)->parts).of) continue;
        LayoutRules told = out.rules;
        tell(told, v, parts);
        PlanData plan = planned(told);
        if (!(seconds_of(plan) < seconds_of(out.plan) * (1 - 1e-9))) continue;
        out.rules = told;
        out.plan = std::move(plan);
        v.why = parts == best[i].parts ? explain(best[i]) : "faster for the whole step, exchanges counted, than " + parts_text(best[i].parts);
      }
    }
  }

  // The told rules with every cut even, or all on the fastest rank.
  Baseline baselines_of(const LayoutRules& rules) const {
    LayoutRules even_rules = rules;
    const auto sizes = reference_sizes(passes_);
    bool any = false;
    for (Rule& r : even_rules.split)
      if (!r.axes.names.empty()) {
        r.parts = CutBy::even;
        any = true;
      }
    if (!any) return {};
    Baseline out;
    out.even = planned(even_rules).step_seconds;
    for (int rank = 0; rank < mesh_.ranks(); rank++) {
      LayoutRules single = even_rules;
      for (Rule& r : single.split) {
        if (r.axes.names.empty() || !sizes.contains(r.dim)) continue;
        Variable v{"", r.dim, CutBy::even, {}, sizes.at(r.dim), 1, {}};
        for (const std::string& a : r.axes.names) {
          v.axes.push_back(mesh_.axis(a));
          v.parts *= mesh_.axes()[static_cast<std::size_t>(v.axes.back())].size;
        }
        r.parts = Sizes{all_on(v, part_of(mesh_, v.axes, rank))};
      }
      const std::optional<double> seconds = planned(single).step_seconds;
      if (!out.fast_alone || (seconds && *seconds < *out.fast_alone)) out.fast_alone = seconds;
    }
    return out;
  }

  void list_cuts(Told& out) const {
    for (const Rule& r : out.rules.split) {
      if (r.axes.names.empty()) continue;
      CutChoice c{.dim = r.dim};
      for (const std::string& a : r.axes.names) c.axis += (c.axis.empty() ? "" : ",") + a;
      const Cut cut = cut_of(passes_, mesh_, r);
      if (cut.per >= 0) c.per = mesh_.axes()[static_cast<std::size_t>(cut.per)].name;
      for (const Partition& list : cut.lists) c.parts.push_back(list.sizes());
      for (const Variable& v : variables_)
        if (v.tensor.empty() && v.dim == r.dim && !profile_.empty()) c.why = v.why;
      out.cuts.push_back(std::move(c));
    }
  }

  const Passes& passes_;
  const Mesh& mesh_;
  const LayoutRules& rules_;
  const Profile& profile_;
  DType dtype_;
  std::vector<Variable> variables_;
};

}  // namespace

Told choose_parts(const Passes& passes, const Mesh& mesh, const LayoutRules& rules, const Profile& profile, DType dtype) {
  return Chooser(passes, mesh, rules, profile, dtype).choose();
}

}  // namespace motley
