// SPDX-License-Identifier: Apache-2.0
// Whether layout rules fit a model and a mesh: everything that can be said before anything is planned.
#pragma once
#include <motley/mesh.h>
#include <motley/rules.h>

#include <string>
#include <vector>

#include "graph/passes.h"

namespace motley {

struct RuleComplaint {
  std::string pointer{};  // inside the layout object, as "/split/filters3/parts"; may be longer than what the file wrote out
  std::string text{};
};

// All that is wrong: axes the mesh has not, dims nobody has, parts that do not fit, tensors, layers and devices nobody knows, two
// dims of an input or a layer's output on one axis, placed layers whose own explicit parts give something to other devices.
// Explicit sizes of slid-over dims speak of the inputs' size; those of the batch are shares of any batch.
std::vector<RuleComplaint> check_rules(const Passes& passes, const Mesh& mesh, const LayoutRules& rules);

// UserError with the first complaint, for rules that were written in C++.
void require_rules(const Passes& passes, const Mesh& mesh, const LayoutRules& rules);

}  // namespace motley
