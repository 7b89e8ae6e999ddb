// SPDX-License-Identifier: Apache-2.0
#include "balance/timed_steps.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "base/version.h"
#include "plan/plan_fields.h"
#include "plan/plan_file.h"
#include "plan/planner.h"

namespace motley {

namespace {

constexpr std::size_t kMostKept = 64;

std::string hash_of_devices(const std::vector<DeviceFacts>& devices) {
  Hash hash;
  for (const DeviceFacts& d : devices) hash.add(d.kind).add(d.model).add(d.isa).add(d.library).add(d.host).add(d.threads);
  return hex(hash.value());
}

bool same_step(const TimedSteps& a, const TimedSteps& b) {
  return a.step == b.step && a.devices == b.devices && a.build == b.build;
}

}  // namespace

std::string decisions_of(const LayoutRules& resolved) {
  return hex(Hash().add(resolved).value());
}

TimedSteps steps_of(const Step& step, const Mesh& mesh, const LayoutRules& rules, const Profile& profile, DType dtype) {
  return {.step = hex(plan_hash(step, mesh, rules, {.dtype = dtype})),
          .devices = hash_of_devices(profile.devices),
          .build = kMotleyVersion};
}

const TimedSteps* timed_steps(const Profile& profile, const Step& step, const Mesh& mesh, const LayoutRules& rules, DType dtype) {
  if (profile.steps.empty()) return nullptr;
  const auto found =
      std::find_if(profile.steps.begin(), profile.steps.end(),
                   [&, wanted = steps_of(step, mesh, rules, profile, dtype)](const TimedSteps& s) { return same_step(s, wanted); });
  return found == profile.steps.end() ? nullptr : &*found;
}

const TimedPlan* timed_plan(const TimedSteps& steps, const LayoutRules& resolved) {
  const auto found = std::find_if(steps.plans.begin(), steps.plans.end(),
                                  [its = decisions_of(resolved)](const TimedPlan& p) { return p.decisions == its; });
  return found == steps.plans.end() ? nullptr : &*found;
}

std::optional<double> measured_seconds(const Profile& profile, const Plan& plan, const LayoutRules& rules) {
  const TimedSteps* steps = timed_steps(profile, plan.step(), plan.mesh(), rules, plan.data().dtype);
  const TimedPlan* its = steps == nullptr ? nullptr : timed_plan(*steps, plan.data().rules);
  return its == nullptr ? std::nullopt : std::optional(steps->reference_seconds.typical() * its->median);
}

void add_timed_steps(Profile& profile, TimedSteps steps) {
  std::erase_if(profile.steps, [&](const TimedSteps& s) { return same_step(s, steps); });
  profile.steps.push_back(std::move(steps));
  if (profile.steps.size() > kMostKept) profile.steps.erase(profile.steps.begin());
}

}  // namespace motley
