// SPDX-License-Identifier: Apache-2.0
// What the part of a model that could not be built may contain: rules about that cannot be checked.
#pragma once
#include <set>
#include <string>

#include "config/model.h"

namespace motley {

struct Unbuilt {
  bool anything = false;            // not even the names are known
  std::set<std::string> names{};    // of dims, inputs and layers
  std::set<std::string> endings{};  // "_3": a layer without a name whose op is not known
  bool may_be(const std::string& name) const;
};

// For a model as it was written, read and built.
Unbuilt unbuilt_of(const Json& json, const ModelSpec& spec, const Model& built);

}  // namespace motley
