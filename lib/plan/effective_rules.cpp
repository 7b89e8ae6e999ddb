// SPDX-License-Identifier: Apache-2.0
#include "plan/effective_rules.h"

#include "base/json.h"

namespace motley {

std::string EffectiveRule::pointer() const {
  if (rule == nullptr) return "";
  return (override_of == nullptr ? "/split" : "/tensors/" + pointer_token(*override_of)) + "/" + pointer_token(rule->dim);
}

EffectiveRules::EffectiveRules(const LayoutRules& rules, const Passes& passes) : rules_(rules) {
  for (const Rule& r : rules.split) split_.insert_or_assign(r.dim, EffectiveRule{.rule = &r});
  for (const DerivedDim& derived : passes.derived_dims) {
    const EffectiveRule source = rule_of_split(derived.of);
    if (!source.cuts() || split_.contains(derived.dim)) continue;
    split_.emplace(derived.dim, EffectiveRule{.rule = source.rule, .derived = &derived});
    derived_.push_back(&derived);
  }
}

EffectiveRule EffectiveRules::rule_of_split(const std::string& dim) const {
  const auto found = split_.find(dim);
  return found == split_.end() ? EffectiveRule{} : found->second;
}

EffectiveRule EffectiveRules::rule_for(const StepTensor& tensor, const std::string& dim) const {
  EffectiveRule found = rule_of_split(dim);
  const DerivedDim* const derived = found.derived;
  for (const std::string* name : {&tensor.layer, &tensor.copy_of, &tensor.name})
    if (const auto own = rules_.tensors.find(*name); own != rules_.tensors.end())
      for (const Rule& r : own->second) {
        if (r.dim == dim) found = {.rule = &r, .override_of = &own->first};
        if (derived != nullptr && r.dim == derived->of && found.derived != nullptr) found = {};
      }
  return found;
}

}  // namespace motley
