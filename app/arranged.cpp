// SPDX-License-Identifier: Apache-2.0
#include "app/arranged.h"

#include <motley/error.h>

#include "app/job_plan.h"
#include "app/run_directory.h"
#include "balance/arrange.h"
#include "base/files.h"
#include "plan/plan_file.h"

namespace motley::app {

namespace {

namespace fs = std::filesystem;

// Empty: none of these devices.
Profile known_profile(const Job& job) {
  try {
    return profile_at_hand(job);
  } catch (const UserError&) {  // what runs or plans next says so
    return {};
  }
}

// Of the run that is resumed; nothing: it has no plan for these devices.
std::optional<Mesh> mesh_of_run(const fs::path& run, const Mesh& devices) {
  const fs::path file = run / kPlanFile;
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return {};
  try {
    return mesh_of_text(file.string(), read_file(file.string()), devices);
  } catch (const UserError&) {  // of an older motley: arranged again
    return {};
  }
}

}  // namespace

Job arranged(Job job, const Options& options, const std::function<void(const std::string&)>& progress) {
  if (!job.open_axes) return job;
  if (const std::string file = options.plan.string(); !file.empty())
    return with_mesh(job, mesh_of_text(file, read_file(file), job.mesh).value_or(job.mesh));
  if (!options.from.empty())
    if (const auto mesh = mesh_of_run(options.from.parent_path().parent_path(), job.mesh)) return with_mesh(job, *mesh);
  const Arranged all = arrange(step_of(job), job.mesh, job.rules, known_profile(job), {job.train.dtype(), progress});
  if (progress) progress("planning on " + all.planned.front().text());
  Job out = with_mesh(job, all.planned.front().mesh);
  out.axes = choice_of(all);
  return out;
}

}  // namespace motley::app
