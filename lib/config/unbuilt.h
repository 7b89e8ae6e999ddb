// SPDX-License-Identifier: Apache-2.0
// What may be in the part of a model that could not be built: rules about it are neither right nor wrong.
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

// Of a model as it was written, read and built.
Unbuilt unbuilt_of(const Json& json, const ModelSpec& spec, const Model& built);

}  // namespace motley
