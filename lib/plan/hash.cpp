// SPDX-License-Identifier: Apache-2.0
// What ranks compare to make sure that they run the same plan.
#include "base/hash.h"

#include "plan/plan_fields.h"
#include "plan/planner.h"

namespace motley {

std::uint64_t plan_hash(const Step& step, const Mesh& mesh, const LayoutRules& rules, const BalanceOptions& options) {
  Hash hash;
  hash.add(step.hash()).add(mesh).add(rules).add(options);
  return hash.value();
}

}  // namespace motley
