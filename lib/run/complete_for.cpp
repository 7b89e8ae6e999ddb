// SPDX-License-Identifier: Apache-2.0
#include "run/complete_for.h"

#include <motley/plan.h>

#include <algorithm>

#include "plan/plan_file.h"
#include "plan/planner.h"

namespace motley {

namespace {

constexpr std::size_t kMostComplete = 256;  // the oldest are forgotten

std::string hash_of_plan(const Step& step, const Mesh& mesh, const LayoutRules& rules) {
  return hex(plan_hash(step, mesh, rules, {}));
}

}  // namespace

bool is_complete_for(const Profile& profile, const Step& step, const Mesh& mesh, const LayoutRules& rules) {
  return std::any_of(profile.complete_for.begin(), profile.complete_for.end(),
                     [&, hash = hash_of_plan(step, mesh, rules)](const Profile::Completed& one) {
                       return one.hash == hash && one.kernels <= profile.kernels().size();
                     });
}

void add_complete_for(Profile& profile, const Step& step, const Mesh& mesh, const LayoutRules& rules) {
  std::string hash = hash_of_plan(step, mesh, rules);
  std::erase_if(profile.complete_for, [&](const Profile::Completed& one) { return one.hash == hash; });
  profile.complete_for.push_back({std::move(hash), profile.kernels().size()});
  if (profile.complete_for.size() > kMostComplete) profile.complete_for.erase(profile.complete_for.begin());
}

}  // namespace motley
