// SPDX-License-Identifier: Apache-2.0
// Layout rules that are right one by one and do not fit each other.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "plan/check_rules.h"

namespace motley {

// Two dims of an input or a layer's output on one axis; placed layers whose own explicit parts give something to other devices (for
// those the subject's mesh is needed). Refused: pointers of the rules that have been complained about; these count as none.
std::vector<RuleComplaint> conflicts_of_rules(const RuleSubject& subject, const Passes& passes, const LayoutRules& rules,
                                              const std::set<std::string>& refused);

}  // namespace motley
