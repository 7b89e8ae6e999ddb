// SPDX-License-Identifier: Apache-2.0
#include "run/complete_for.h"

#include <motley/plan.h>

#include <algorithm>

#include "plan/plan_file.h"
#include "plan/planner.h"

namespace motley {

namespace {

constexpr std::size_t kMost = 256;  // the oldest are forgotten

std::string hash_of(const Step& step, const Mesh& mesh, const LayoutRules& rules) {
  return hex(plan_hash(step, mesh, rules, {}));
}

}  // namespace

bool is_complete_for(const Profile& profile, const Step& step, const Mesh& mesh, const LayoutRules& rules) {
  const auto& all = profile.complete_for;
  return std::find(all.begin(), all.end(), hash_of(step, mesh, rules)) != all.end();
}

void add_complete_for(Profile& profile, const Step& step, const Mesh& mesh, const LayoutRules& rules) {
  if (is_complete_for(profile, step, mesh, rules)) return;
  profile.complete_for.push_back(hash_of(step, mesh, rules));
  if (profile.complete_for.size() > kMost) profile.complete_for.erase(profile.complete_for.begin());
}

}  // namespace motley
