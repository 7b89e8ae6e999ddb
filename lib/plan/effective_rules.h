// SPDX-License-Identifier: Apache-2.0
// Which rule holds for a dim of a tensor.
#pragma once
#include <motley/rules.h>

#include <map>
#include <string>
#include <vector>

#include "graph/passes.h"

namespace motley {

struct EffectiveRule {
  const Rule* rule = nullptr;                // nullptr: none
  const std::string* override_of = nullptr;  // the tensor or layer in `tensors`; nullptr: a rule of `split`
  const DerivedDim* derived = nullptr;       // the dim has no rule itself and is cut as the dim it comes from
  bool cuts() const { return rule != nullptr && !rule->axes.names.empty(); }
  std::string pointer() const;  // of the rule inside the layout object, as "/split/filters3"; empty: no rule
};

// A rule for the tensor counts before one for its layer, that before one of `split`. A dim that a change of shape makes follows,
// without a rule of its own in `split`, the rule of the dim it comes from; where `tensors` has a rule for that one it is not cut.
// Of two rules for one dim in one list the last counts. Refers to the rules and the passes.
class EffectiveRules {
 public:
  EffectiveRules(const LayoutRules& rules, const Passes& passes);
  EffectiveRule rule_for(const StepTensor& tensor, const std::string& dim) const;
  EffectiveRule rule_of_split(const std::string& dim) const;                  // for tensors without overrides
  const std::vector<const DerivedDim*>& derived() const { return derived_; }  // dims without a rule of their own, sources first

 private:
  const LayoutRules& rules_;
  std::map<std::string, EffectiveRule> split_{};
  std::vector<const DerivedDim*> derived_{};
};

}  // namespace motley
