// SPDX-License-Identifier: Apache-2.0
// Which rule applies to a dim of a tensor.
#pragma once
#include <motley/rules.h>

#include <map>
#include <string>
#include <vector>

#include "graph/passes.h"

namespace motley {

struct EffectiveRule {
  const Rule* rule = nullptr;                // nullptr: none
  const std::string* override_of = nullptr;  // the key in `tensors` (a tensor or layer); nullptr: a rule of `split`
  const DerivedDim* derived = nullptr;       // set if the dim has no rule itself and is cut as its source dim
  bool cuts() const { return rule != nullptr && !rule->axes.names.empty(); }
  std::string pointer() const;  // of the rule inside the layout object, as "/split/filters3"; empty: no rule
};

// A rule for the tensor takes precedence over one for its layer, and that over one of `split`. A derived dim (made by a change of
// shape) without its own rule in `split` follows the rule of its source dim; if `tensors` has a rule for the source dim, the
// derived one is not cut. Of two rules for one dim in one list the last counts. Keeps references to the rules and the passes.
class EffectiveRules {
 public:
  EffectiveRules(const LayoutRules& rules, const Passes& passes);
  EffectiveRule rule_for(const StepTensor& tensor, const std::string& dim) const;
  EffectiveRule rule_of_split(const std::string& dim) const;                  // for tensors without overrides
  const std::vector<const DerivedDim*>& derived() const { return derived_; }  // dims without their own rule, sources first

 private:
  const LayoutRules& rules_;
  std::map<std::string, EffectiveRule> split_{};
  std::vector<const DerivedDim*> derived_{};
};

}  // namespace motley
