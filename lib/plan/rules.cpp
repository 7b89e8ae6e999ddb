// SPDX-License-Identifier: Apache-2.0
#include <motley/rules.h>

namespace motley {

LayoutRules LayoutRules::automatic() {
  LayoutRules out;
  out.open.everything = true;
  return out;
}

LayoutRules& LayoutRules::tensor(const std::string& name, std::vector<Rule> rules) {
  tensors[name] = std::move(rules);
  return *this;
}

LayoutRules& LayoutRules::place(const std::string& layer, std::vector<std::string> devices) {
  places[layer] = std::move(devices);
  return *this;
}

}  // namespace motley
