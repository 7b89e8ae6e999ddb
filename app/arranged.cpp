// SPDX-License-Identifier: Apache-2.0
#include "app/arranged.h"

#include <motley/error.h>

#include "app/job_plan.h"
#include "balance/arrange.h"
#include "base/files.h"
#include "plan/plan_file.h"

namespace motley::app {

namespace {

// Empty: none of these devices.
Profile known_profile(const Job& job) {
  try {
    return profile_at_hand(job);
  } catch (const UserError&) {  // what runs or plans next says so
    return {};
  }
}

}  // namespace

std::pair<Job, std::string> arranged(Job job, const std::filesystem::path& plan) {
  if (!job.open_axes) return {std::move(job), ""};
  if (!plan.empty()) {
    const auto mesh = mesh_of_text(plan.string(), read_file(plan.string()), job.mesh);
    return {with_mesh(job, mesh.value_or(job.mesh)), ""};
  }
  if (const PlannedArrangements all{arrangements(job.mesh)}; all.planned.size() == 1)
    return {with_mesh(job, job.mesh), text_of(all)};
  const Profile profile = known_profile(job);
  if (profile.empty())
    return {
        with_mesh(job, job.mesh),
        "axes auto: all devices along one axis, since nothing is measured yet; motley profile JOB measures, and the next command "
        "arranges them"};
  const PlannedArrangements all = plan_arrangements(step_of(job), job.mesh, job.rules, profile, job.train.dtype());
  return {with_mesh(job, all.planned.front().mesh), text_of(all)};
}

}  // namespace motley::app
