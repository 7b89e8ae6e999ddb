// SPDX-License-Identifier: Apache-2.0
// A step's passes under some rules, and what they cost.
#pragma once
#include <motley/step.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "balance/choose_parts.h"
#include "plan/planner.h"

namespace motley {

// Not copied: `cost` refers to `passes`.
struct PricedPasses {
  PricedPasses(Passes of, const Mesh& mesh, const Profile& profile, DType dtype)
      : passes(std::move(of)), cost(cost_for(passes, mesh, profile, dtype)) {}
  PricedPasses(const PricedPasses&) = delete;
  PricedPasses& operator=(const PricedPasses&) = delete;
  const Passes passes;
  const Cost cost;  // keeps the seconds that it has found
};

// Rules under which a step has the same passes share them. Keeps references to its arguments.
class PassesByRules {
 public:
  PassesByRules(const Step& step, const Mesh& mesh, const Profile& profile, DType dtype)
      : step_(step), mesh_(mesh), profile_(profile), dtype_(dtype) {}
  std::shared_ptr<const PricedPasses> of(const LayoutRules& rules) {
    Passes passes = passes_for(step_, rules);
    const auto equal = std::find_if(known_.begin(), known_.end(), [&](const auto& one) {
      return std::equal(one->passes.passes.begin(), one->passes.passes.end(), passes.passes.begin(), passes.passes.end(),
                        [](const Pass& a, const Pass& b) { return a.name == b.name; });  // they differ in merged copies alone
    });
    if (equal != known_.end()) return *equal;
    return known_.emplace_back(std::make_shared<PricedPasses>(std::move(passes), mesh_, profile_, dtype_));
  }

 private:
  const Step& step_;
  const Mesh& mesh_;
  const Profile& profile_;
  DType dtype_;
  std::vector<std::shared_ptr<const PricedPasses>> known_{};
};

}  // namespace motley
