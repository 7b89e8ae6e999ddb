// SPDX-License-Identifier: Apache-2.0
// balance(): rules and a profile -> a Plan.
#include <motley/error.h>
#include <motley/program.h>

#include <fmt/format.h>

#include <algorithm>

#include "balance/balance_within.h"
#include "balance/baselines.h"
#include "balance/idle_devices.h"
#include "balance/near_rules.h"
#include "balance/needed_kernels.h"
#include "balance/timed_steps.h"
#include "base/units.h"
#include "plan/check_rules.h"
#include "plan/index_maps.h"
#include "plan/planner.h"
#include "plan/schedules.h"
#include "plan/statistics.h"
#include "program/compile.h"
#include "program/layer_seconds.h"
#include "program/memory.h"
#include "program/predict.h"
#include "program/too_large.h"

namespace motley {

namespace {

// Chooses which implementations run, where the profile timed several.
void choose_implementations(PlanData& data, const Profile& profile) {
  data.implementations.assign(data.predicted.size(), {});
  const auto& points = profile.kernels();
  if (std::none_of(points.begin(), points.end(), [](const KernelPoint& p) { return p.choices > 1; })) return;
  const CommonPlan plan = data;
  for (std::size_t r = 0; r < data.implementations.size(); r++)
    for (KernelSpec& spec : kernels_as_run(plan, static_cast<int>(r)))
      if (std::string fastest = profile.implementation(static_cast<int>(r), spec); !fastest.empty())
        data.implementations[r].push_back({std::move(spec), std::move(fastest)});
}

// Refuses kernels that no device can compute and that the search could not avoid.
void refuse_impossible(const PlanData& data, const Mesh& mesh, const Profile& profile) {
  for (int r = 0; r < mesh.ranks() && data.step_seconds.value_or(0) >= kImpossibleSeconds; r++)
    for (const ProgramStep& s : compile(data, r).steps) {
      const auto* run = std::get_if<RunKernel>(&s.what);
      if (run == nullptr || profile.supports(r, run->spec)) continue;
      const auto& passes = data.passes.passes;
      const auto pass = std::find_if(passes.begin(), passes.end(), [&](const Pass& p) { return p.name == run->pass; });
      throw UserError(fmt::format(
          "{}{}: rank {} ({}) cannot compute {} (\"implementation\": null in its profile), and these rules leave no "
          "other choice; \"place\" the layer on another device, cut another of its dims, or give this device no part",
          pass == passes.end() ? "" : "layer \"" + pass->layer + "\", ", run->pass, r, mesh.device(r).name, summary(run->spec)));
    }
}

Mesh with_memory(const Mesh& mesh, const std::vector<Index>& memory) {
  std::vector<Device> devices = mesh.devices();
  for (std::size_t r = 0; r < devices.size(); r++) devices[r].memory_bytes = memory[r];
  return {mesh.axes(), std::move(devices)};
}

}  // namespace

std::vector<Index> limits_of(const Mesh& mesh) {
  std::vector<Index> out;
  for (const Device& d : mesh.devices()) out.push_back(d.memory_bytes);
  return out;
}

Plan balance(const Step& step, const Mesh& mesh, const LayoutRules& rules, const Profile& profile, const BalanceOptions& options) {
  return balance_within(limits_of(mesh), step, mesh, rules, profile, options);
}

Plan balance_within(const std::vector<Index>& memory, const Step& step, const Mesh& given, const LayoutRules& rules,
                    const Profile& profile, const BalanceOptions& options) {
  const Mesh mesh = with_memory(given, memory);
  if (options.dtype != DType::f32 && options.dtype != DType::f64)
    throw UserError("a plan computes in f32 or f64, not " + std::string(to_string(options.dtype)) +
                    (options.dtype == DType::bf16 ? "; TrainingOptions::storage stores tensors of an f32 plan as bf16" : ""));
  if (mesh.ranks() < 1) throw UserError("a plan needs a mesh with at least one device");
  if (!profile.devices.empty() && static_cast<int>(profile.devices.size()) != mesh.ranks())
    throw UserError("the profile is of " + std::to_string(profile.devices.size()) + " devices, the mesh has " +
                    std::to_string(mesh.ranks()));
  require_rules(step.passes(), mesh, rules);
  ChosenLayout layout =
      choose_by_steps(step, mesh, rules, profile, options.dtype, timed_steps(profile, step, given, rules, options.dtype));
  ChosenParts& chosen = layout.parts;
  PlanData data = std::move(chosen.plan);
  if (const auto undefined = undefined_statistics(data, mesh)) throw UserError(*undefined);
  data.cuts = std::move(chosen.cuts);
  data.notes = std::move(chosen.notes);
  data.layout = std::move(layout.layers);
  data.idle = idle_devices(data, chosen.with);
  if (!layout.others.empty()) data.notes.push_back("predicted with other layouts: " + layout.others);
  if (data.repeats)
    data.notes.push_back(
        data.passes.accumulate > 1
            ? "parameters are sent again in each micro-batch: a rank lacks the memory to keep what it receives of them for a whole "
              "step"
            : "frozen parameters are sent again in each step: a rank lacks the memory to keep what it receives of them");
  const std::vector<Index> kept = kept_bytes(data);
  if (const auto most = std::max_element(kept.begin(), kept.end()); most != kept.end() && *most > 0)
    data.notes.push_back(fmt::format("frozen parameters are sent in the first step and kept, up to {} on a rank",
                                     bytes_text(static_cast<double>(*most))));
  for (std::string& note : reshaping_notes(data)) data.notes.push_back(std::move(note));
  if (options.baselines)
    data.baselines =
        baselines_of(layout.priced->passes, mesh, layout.rules, profile, options.dtype, layout.priced->cost, chosen.base);
  if (const auto& b = data.baselines.fast_alone; b && data.step_seconds && *b < *data.step_seconds * 0.99)
    data.notes.push_back(
        fmt::format("one device alone would take {:.3f} ms a step, this plan {:.3f} ms: the rules leave work on the others; "
                    "\"place\" layers on it, or use a mesh of that device",
                    *b * 1e3, *data.step_seconds * 1e3));
  if (const double least = least_step_seconds(data, profile); data.step_seconds && *data.step_seconds < least * (1 - 1e-9))
    data.notes.push_back(
        fmt::format("the predicted step of {} is shorter than the {} that all devices together need at the best rates they were "
                    "measured at: do not rely on it; measure again with: motley profile JOB",
                    seconds_text(*data.step_seconds), seconds_text(least)));
  refuse_impossible(data, mesh, profile);
  choose_implementations(data, profile);
  data.hash = plan_hash(step, given, rules, options);
  for (int r = 0; r < mesh.ranks(); r++) {
    const Index has = mesh.device(r).memory_bytes;
    if (has == 0 || at(data.predicted, r).memory_bytes <= has) continue;
    const Program program = compile(data, r);
    throw UserError("rank " + std::to_string(r) + " (" + mesh.device(r).name + ") needs " +
                        not_enough(program, workspace_of(program, profile), has, "the mesh gives it"),
                    Exit::device);
  }
  return plan_from(step, given, std::move(data));
}

}  // namespace motley
