// SPDX-License-Identifier: Apache-2.0
// What real steps say about plans (Profile::steps). They are kept by the parts of a plan, not by all that it decides: picks follow
// the profile, and a kernel that is measured later would otherwise make a plan that ran one that never did.
#pragma once
#include <motley/plan.h>
#include <motley/profile.h>

#include <optional>
#include <string>

namespace motley {

std::string decisions_of(const LayoutRules& resolved);  // hash of rules with all parts given
// Without plans: which step, devices and build they are for.
TimedSteps steps_of(const Step& step, const Mesh& mesh, const LayoutRules& rules, const Profile& profile, DType dtype);
// nullptr: none of this step were timed by this motley on these devices with these libraries.
const TimedSteps* timed_steps(const Profile& profile, const Step& step, const Mesh& mesh, const LayoutRules& rules, DType dtype);
// nullptr: the plan did not run.
const TimedPlan* timed_plan(const TimedSteps& steps, const LayoutRules& resolved);
// Of a plan's steps on the slowest rank; rules: those that it was chosen under.
std::optional<double> measured_seconds(const Profile& profile, const Plan& plan, const LayoutRules& rules);
// Replaces what the profile has for the same step; at most 64 steps are kept.
void add_timed_steps(Profile& profile, TimedSteps steps);

}  // namespace motley
