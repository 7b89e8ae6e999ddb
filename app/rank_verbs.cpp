// SPDX-License-Identifier: Apache-2.0
#include "app/rank_verbs.h"

#include <fmt/format.h>
#include <motley/error.h>

#include "app/job_plan.h"

namespace motley::app {

namespace {

MeasureOptions measuring(const Task& task, Measure when) {
  return {.budget_seconds = task.options.budget_seconds,
          .when = when,
          .progress = [&console = task.console](const std::string& line) { console.progress(line); }};
}

Measure when_of(const Job& job) {
  switch (job.profile.measure) {
    case MeasureWhen::if_missing: return Measure::if_missing;
    case MeasureWhen::always: return Measure::always;
    case MeasureWhen::never: return Measure::never;
  }
  throw InternalError("an unknown way to measure");
}

std::string summary_of(const Profile& profile, const std::filesystem::path& file) {
  std::string text = fmt::format("profile     {}\n", file.empty() ? "not kept" : file.string());
  for (std::size_t d = 0; d < profile.devices.size(); d++) {
    const DeviceFacts& facts = profile.devices[d];
    std::size_t kernels = 0;
    for (const KernelPoint& point : profile.kernels()) kernels += static_cast<std::size_t>(point.device) == d ? 1 : 0;
    text += fmt::format("rank {:<7}{}: {}, {}, {} thread{}, {}; {} kernels\n", d, facts.name, facts.model, facts.isa, facts.threads,
                        facts.threads == 1 ? "" : "s", facts.library, kernels);
  }
  text += fmt::format("links       {}\n", profile.links.size());
  for (const std::string& note : profile.notes) text += "note        " + note + "\n";
  return text;
}

}  // namespace

void give_plan(const Plan& plan, const Options& options, Console& console) {
  std::string text = options.form == Form::json ? plan.json() : plan.table();
  if (!text.ends_with('\n')) text += '\n';
  give_result(text, options.output, console);
}

void plan_ranks(Runtime& rt, const Task& task) {
  rt.phase("measuring");
  const Step step = step_of(task.job);
  const Profile profile = profile_of(rt, task.job, step, measuring(task, when_of(task.job)));
  rt.phase("planning");
  if (rt.rank() == 0) give_plan(plan_of(task.job, step, profile), task.options, task.console);
}

void profile_ranks(Runtime& rt, const Task& task) {
  rt.phase("measuring");
  const std::filesystem::path file = task.options.output.empty() ? profile_path(task.job) : task.options.output;
  const Profile profile = measure(rt, task.job.mesh, step_of(task.job), task.job.rules, file, measuring(task, Measure::always));
  task.console.progress_done();
  rt.print(summary_of(profile, file));
}

}  // namespace motley::app
