// SPDX-License-Identifier: Apache-2.0
#include <motley/measure.h>

#include <fmt/format.h>
#include <motley/error.h>

#include <algorithm>
#include <iostream>
#include <numeric>
#include <optional>

#include "balance/balance_within.h"
#include "balance/candidate_sizes.h"
#include "balance/choose_layout.h"
#include "balance/needed_kernels.h"
#include "base/at.h"
#include "base/json.h"
#include "mesh/control.h"
#include "mesh/parts.h"
#include "plan/plan_file.h"
#include "plan/planner.h"
#include "profiler/join.h"
#include "profiler/part_of.h"
#include "program/predict.h"
#include "run/agreed.h"
#include "run/complete_for.h"
#include "run/kernel_timer.h"
#include "run/planned.h"
#include "run/progress_line.h"
#include "run/same_devices.h"

namespace motley {

namespace {

// Shares of the remaining budget.
constexpr double kCandidates = 0.7, kOfPlan = 0.6, kChoices = 0.8;
constexpr int kMostPlans = 5;

class RuntimeMeasurer {
 public:
  RuntimeMeasurer(Runtime& rt, const Mesh& mesh, const Step& step, const LayoutRules& rules, const MeasureOptions& options)
      : rt_(rt),
        mesh_(mesh),
        step_(step),
        rules_(rules),
        options_(options),
        backend_(rt.backend(mesh)),
        timer_(rt, backend_, options) {
    if (!(options.budget_seconds > 0))
      throw UserError(fmt::format("a budget of {} seconds for measuring; expected more than 0", options.budget_seconds));
    const LayoutRules layout = layouts_to_measure(step, mesh, rules).front();
    const Passes passes = passes_for(step, layout);
    const std::vector<Variable> variables = variables_of(passes, mesh, layout);
    PlanData plan = plan_with(passes, mesh, with_parts(layout, mesh, variables, even_parts(variables)), {}, DType::f32);
    predict(plan, {});
    timer_.step_bytes = at(plan.predicted, rt_.rank()).memory_bytes;
  }

  Profile run(const std::filesystem::path& file) {
    Profile profile = read(file);
    if (options_.when == Measure::never || is_complete_for(profile, step_, mesh_, rules_)) return profile;
    if (complete(profile)) {
      add_complete_for(profile, step_, mesh_, rules_);
      keep(profile, file);
    }
    return profile;
  }

 private:
  // True: something was missing.
  bool complete(Profile& profile) {
    const StopsAtOnce nothing_to_save;
    const bool all_new = profile.devices.empty();
    if (all_new) profile = without_kernels();
    const bool fresh = measure_candidates(profile, all_new) || all_new;
    const bool changed = settle(profile, fresh, fresh) || fresh;
    for (int round = 0; changed && round < kMostPlans; round++) {
      const std::vector<KernelSpec> missing = missing_choices(profile, plan_of(profile).data());
      if (!anywhere(missing) || anyone_over_budget() || !measure_more(profile, missing, kChoices)) break;
      settle(profile, false, fresh);  // new times may move the cuts, and then other kernels run
    }
    if (all_new) timer_.measure_alone(profile);
    if (!settled_) warn_of_missing(profile);
    return changed;
  }

  // Collective.
  Profile read(const std::filesystem::path& file) {
    const std::string text = from_rank_0(rt_.transport(), [&] {
      std::string its;
      if (options_.when == Measure::always) require_profile_place(file);
      if (options_.when != Measure::always && std::filesystem::exists(file)) its = read_file(file.string());
      if (its.empty() && options_.when == Measure::never) throw UserError(missing_profile(file.string()), Exit::missing);
      if (its.empty() && !file.empty()) {  // before anything is measured
        make_folder(file);
        require_writable(file);
      }
      return its;
    });
    if (text.empty()) return {};
    Profile profile = in_order_of(mesh_, Profile::parse(file.string(), text));
    require_same_devices(rt_, mesh_, profile, file.string());
    return profile;
  }

  Profile without_kernels() {
    rt_.phase("measuring the link to the device");
    Profile profile = devices();
    rt_.phase("measuring links");
    if (rt_.ranks() > 1) timer_.say("measuring links");
    add_links(profile, backend_, rt_.transport(), options_.budget_seconds);
    return profile;
  }

  // Every kernel at the candidates' sizes that the profile lacks, such as one of another network: a plan would be chosen by
  // estimates. True: there were some.
  bool measure_candidates(Profile& profile, bool all_new) {
    const std::vector<KernelSpec> missing =
        unknown(profile, candidate_kernels(step_, mesh_, rules_, {rt_.rank()}).front(), all_new);
    rt_.phase("measuring kernels");
    if (!anywhere(missing)) return false;
    if (!timer_.measure(profile, missing, kCandidates, true)) timer_.refuse_budget();
    agreed(rt_.transport(), [&] {
      const auto& points = profile.kernels();
      if (missing.empty() ||
          std::any_of(points.begin(), points.end(), [&](const KernelPoint& p) { return p.device == rt_.rank(); }))
        return;
      const Device& device = mesh_.device(rt_.rank());
      throw UserError(
          fmt::format("rank {} ({}): none of its {} kernels can be timed in a quarter of its memory ({} bytes); give it "
                      "more memory_bytes, or \"place\" the layers on other devices",
                      rt_.rank(), device.name, missing.size(), backend_.memory_bytes()),
          Exit::device);
    });
    return true;
  }

  // Also measures what the plan made from the profile runs, until that plan needs no estimate for a kernel: a later reader of the
  // profile makes the same plan and measures nothing; or until the budget is used. True: something was measured.
  bool settle(Profile& profile, bool near, bool interpolated) {
    for (int round = 0; round < kMostPlans; round++) {
      rt_.phase("planning what to measure");
      const std::vector<KernelSpec> missing = missing_of_plan(profile, near && round == 0, interpolated);
      rt_.phase("measuring the plan's kernels");
      settled_ = !anywhere(missing);
      if (settled_ || anyone_over_budget()) return round > 0;
      if (!measure_more(profile, missing, kOfPlan)) return true;  // the rest is interpolated
    }
    return true;
  }

  // The plan runs kernels whose times are estimates. Collective.
  void warn_of_missing(const Profile& profile) {
    const auto missing = static_cast<Index>(missing_of_plan(profile, false, false).size());
    const std::vector<Index> all = control::all_of(rt_.transport(), missing);
    const Index sum = std::accumulate(all.begin(), all.end(), Index{0});
    if (sum == 0 || rt_.rank() != 0 || !options_.warn) return;
    options_.warn(fmt::format(
        "{} of the plan's kernels not measured in {:g} s, their times are estimates; to measure them: motley profile JOB "
        "--budget-seconds N with more seconds",
        sum, options_.budget_seconds));
  }

  // Every rank's device and its link to the host; no kernels yet.
  Profile devices() {
    Profile mine;
    mine.devices = {facts_of(mesh_.device(rt_.rank()), backend_)};
    mine.device_links = own_device_links(backend_, rt_.transport(), options_.budget_seconds);
    return joined(rt_.transport(), mine);
  }

  // Kernels that are not measured, nor (except for `interpolated`) between measured ones; or that this device cannot compute
  // although no point says so.
  std::vector<KernelSpec> unknown(const Profile& profile, std::vector<KernelSpec> specs, bool interpolated) const {
    std::erase_if(specs, [&](const KernelSpec& s) {
      if (profile.supports(rt_.rank(), s) != backend_.supports(s)) return false;
      const Known known = flops(s) == 0 ? Known::measured : profile.seconds(rt_.rank(), s).known;
      return known == Known::measured || (!interpolated && known == Known::interpolated);
    });
    return specs;
  }
  // Missing kernels that the plan made from the profile runs. For a new profile also those between measured sizes (interpolated),
  // and the sizes around the plan's cuts (near): some kernels have no granule, or cost more below one.
  std::vector<KernelSpec> missing_of_plan(const Profile& profile, bool near_too, bool interpolated) {
    const Plan& plan = plan_of(profile);
    std::vector<KernelSpec> specs = kernels_of(plan.data(), rt_.rank());
    if (near_too) {
      const std::vector<KernelSpec> tiled = kernels_tiled(plan.data(), {rt_.rank()}).front();
      specs.insert(specs.end(), tiled.begin(), tiled.end());
      auto near = [&](const Variable& v) {
        for (const CutChoice& c : plan.data().cuts)
          if (c.dim == v.dim && static_cast<int>(c.parts.front().size()) == v.parts)
            return sizes_near(at(c.parts.front(), part_of(mesh_, v.axes, rt_.rank())), v.size, 4);
        return std::vector<Index>{};
      };
      const LayoutRules layout = with_open_parts(plan.data().rules, rules_);
      const std::vector<KernelSpec> needed =
          needed_kernels(plan.data().passes, mesh_, layout, profile, DType::f32, {rt_.rank()}, near).front();
      specs.insert(specs.end(), needed.begin(), needed.end());
    }
    std::vector<KernelSpec> different;
    for (KernelSpec& s : unknown(profile, std::move(specs), interpolated))
      if (std::find(different.begin(), different.end(), s) == different.end()) different.push_back(std::move(s));
    return different;
  }
  // Kernels of the plan with the bias and activation fused into them, if this device has a choice that was not timed with these;
  // what is fused, and what it would be separately.
  std::vector<KernelSpec> missing_choices(const Profile& profile, const PlanData& plan) const {
    std::vector<KernelSpec> specs = kernels_as_run(plan, rt_.rank());
    std::erase_if(specs, [&](const KernelSpec& s) {
      return !profile.implementation(rt_.rank(), s).empty() || backend_.implementations(s).size() < 2;
    });
    for (KernelSpec& s : kernels_fused_and_apart(plan, rt_.rank())) {
      if (flops(s) == 0 || std::find(specs.begin(), specs.end(), s) != specs.end()) continue;
      const bool known = s.epilogue.code.empty() ? !profile.seconds(rt_.rank(), s).is_guess()
                                                 : profile.timed(rt_.rank(), s) || !profile.supports(rt_.rank(), s);
      if (!known || profile.supports(rt_.rank(), s) != backend_.supports(s)) specs.push_back(std::move(s));
    }
    return specs;
  }
  // The plan for the profile as it is, made once. Collective.
  const Plan& plan_of(const Profile& profile) {
    if (!plan_)
      plan_.emplace(planned(rt_.transport(), step_, mesh_, [&] {
        const BalanceOptions options{.baselines = false};
        return options_.evaluation ? balance_both(step_, *options_.evaluation, mesh_, rules_, profile, options).training
                                   : balance(step_, mesh_, rules_, profile, options);
      }));
    return *plan_;
  }
  bool measure_more(Profile& profile, const std::vector<KernelSpec>& missing, double share) {
    if (!timer_.measure(profile, missing, share, false)) return false;
    plan_.reset();
    return true;
  }
  bool anyone_over_budget() { return agree(rt_.transport(), timer_.over_budget() ? 1 : 0).status != 0; }
  bool anywhere(const std::vector<KernelSpec>& missing) { return agree(rt_.transport(), missing.empty() ? 0 : 1).status != 0; }

  void keep(const Profile& profile, const std::filesystem::path& file) {
    on_rank_0(rt_.transport(), [&] {
      if (file.empty()) return;
      make_folder(file);
      profile.save(file);
    });
  }
  static void make_folder(const std::filesystem::path& file) {
    std::error_code failed;
    if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path(), failed);
    if (failed) throw UserError(file.parent_path().string() + ": " + failed.message(), Exit::io);
  }

  Runtime& rt_;
  const Mesh& mesh_;
  const Step& step_;
  const LayoutRules& rules_;
  const MeasureOptions& options_;
  Backend& backend_;
  KernelTimer timer_;
  std::optional<Plan> plan_{};  // of the profile as it is
  bool settled_ = true;         // the last plan's kernels have all been measured, or are between measured ones
};

}  // namespace

Profile measure(Runtime& rt, const Mesh& mesh, const Step& step, const LayoutRules& rules, const std::filesystem::path& keep_in,
                const MeasureOptions& options) {
  if (options.progress) return RuntimeMeasurer(rt, mesh, step, rules, options).run(keep_in);
  ProgressLine line([](const std::string& text) { std::cerr << text << std::flush; });
  MeasureOptions shown = options;
  shown.progress = [&](const std::string& text) { line.show(text); };
  return RuntimeMeasurer(rt, mesh, step, rules, shown).run(keep_in);
}

}  // namespace motley
