// SPDX-License-Identifier: Apache-2.0
// Layout rules that are valid one by one and do not fit each other.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "plan/check_rules.h"

namespace motley {

std::string quoted(const std::string& name);  // as in complaints: "name"

// Two dims of an input or a layer's output on one axis; placed layers whose own explicit parts give something to other devices
// (this check needs the subject's mesh). Refused: pointers of rules with a complaint; these are ignored.
std::vector<RuleComplaint> conflicts_of_rules(const RuleSubject& subject, const Passes& passes, const LayoutRules& rules,
                                              const std::set<std::string>& refused);

}  // namespace motley
