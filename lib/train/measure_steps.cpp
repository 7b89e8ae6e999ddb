// SPDX-License-Identifier: Apache-2.0
#include <motley/measure_steps.h>

#include <fmt/format.h>
#include <motley/error.h>

#include <algorithm>

#include "balance/balance_within.h"
#include "balance/near_rules.h"
#include "balance/timed_steps.h"
#include "balance/variables.h"
#include "base/quantile.h"
#include "mesh/control.h"
#include "run/agreed.h"
#include "run/planned.h"
#include "train/real_steps.h"

namespace motley {

namespace {

// The plans that may run: the chosen one first.
struct Candidates {
  std::vector<Plan> plans{};
  std::vector<std::string> names{};
};
// Rank 0's.
Candidates candidates(const Mesh& mesh, const Step& step, const LayoutRules& rules, const Profile& profile,
                      const std::optional<Step>& evaluation) {
  Candidates out;
  const BalanceOptions options{.baselines = false};
  if (evaluation) {  // its memory may leave training other parts
    out.plans.push_back(balance_both(step, *evaluation, mesh, rules, profile, options).training);
    out.names.push_back("chosen");
  }
  for (const NearRules& near : near_rules(choose_layouts(step, mesh, rules, profile, DType::f32), mesh)) {
    const auto same = std::find_if(out.plans.begin(), out.plans.end(), [&](const Plan& p) { return p.data().rules == near.rules; });
    if (same != out.plans.end()) {
      out.names[static_cast<std::size_t>(same - out.plans.begin())] = near.name;
      continue;
    }
    try {
      out.plans.push_back(balance(step, mesh, near.rules, profile, options));
      out.names.push_back(near.name);
    } catch (const UserError&) {  // not in the devices' memory
      if (out.plans.empty()) throw;
    }
  }
  return out;
}

// On every rank; the names are rank 0's alone. Collective.
Candidates same_candidates(Runtime& rt, const Mesh& mesh, const Step& step, const LayoutRules& rules, const Profile& profile,
                           const std::optional<Step>& evaluation) {
  Candidates mine;
  on_rank_0(rt.transport(), [&] { mine = candidates(mesh, step, rules, profile, evaluation); });
  const int count = control::all_of(rt.transport(), static_cast<int>(mine.plans.size())).front();
  Candidates out{.names = mine.names};
  out.names.resize(static_cast<std::size_t>(count));
  for (int k = 0; k < count; k++)
    out.plans.push_back(planned(rt.transport(), step, mesh, [&] { return mine.plans[static_cast<std::size_t>(k)]; }));
  return out;
}

void add_rounds(TimedSteps& steps, const Candidates& of, const std::vector<StepRounds>& rounds) {
  if (rounds.front().empty()) return;
  std::vector<double> reference = counted_seconds(rounds.front());
  for (std::size_t k = 0; k < of.plans.size(); k++) {
    std::vector<double> over = over_reference(rounds[k], rounds.front());
    if (over.empty()) continue;
    steps.plans.push_back({decisions_of(of.plans[k].data().rules), of.names[k], quantile(over, 0.25), quantile(over, 0.5),
                           quantile(over, 0.75), static_cast<int>(over.size())});
  }
  steps.reference = steps.plans.front().decisions;
  steps.reference_seconds = {quantile(reference, 0), quantile(reference, 0.25), quantile(reference, 0.5),
                             static_cast<int>(reference.size())};
}

}  // namespace

Profile measure_steps(Runtime& rt, const Mesh& mesh, const Step& step, const LayoutRules& rules, Profile profile,
                      const std::filesystem::path& keep_in, const MeasureStepsOptions& options) {
  const double seconds = control::all_of(rt.transport(), options.seconds).front();
  if (!needs_profile(rules) || mesh.ranks() < 2 || profile.empty() || !(seconds > 0)) return profile;
  const StopsAtOnce nothing_to_save;
  TimedSteps steps = steps_of(step, mesh, rules, profile, DType::f32);
  if (timed_steps(profile, step, mesh, rules, DType::f32) != nullptr) return profile;
  rt.phase("running real steps");
  const Candidates all = same_candidates(rt, mesh, step, rules, profile, options.evaluation);
  if (all.plans.size() > 1) {
    add_rounds(steps, all, real_steps(rt, all.plans, seconds, options.progress));
    if (steps.plans.empty() && rt.rank() == 0 && options.warn)
      options.warn(
          fmt::format("three rounds of real steps of two plans do not fit into {:g} s: predictions alone decide", options.seconds));
  }
  add_timed_steps(profile, std::move(steps));
  // The clocks of the ranks differ: rank 0's figures, on every rank.
  profile = Profile::parse("rank 0's profile", from_rank_0(rt.transport(), [&] {
                             if (!keep_in.empty()) profile.save(keep_in);
                             return profile.json();
                           }));
  return profile;
}

}  // namespace motley
