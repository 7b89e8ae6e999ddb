// SPDX-License-Identifier: Apache-2.0
// Whether layout rules fit a model and a mesh: everything that can be said before anything is planned.
#pragma once
#include <motley/mesh.h>
#include <motley/rules.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/passes.h"

namespace motley {

struct RuleComplaint {
  std::string pointer{};  // inside the layout object, as "/split/filters3/parts"; may be longer than what the file wrote out
  std::string text{};
};

// What rules are checked against. Where the model or the mesh is wrong itself, what is known of it; nothing is said about the rest.
struct RuleSubject {
  const Passes* passes = nullptr;  // of what could be built
  const Mesh* mesh = nullptr;
  const std::vector<Axis>* axes = nullptr;       // of the mesh
  const std::vector<Device>* devices = nullptr;  // of the mesh
  std::function<bool(const std::string&)> may_be = [](const std::string&) {
    return false;
  };                                   // a dim or layer that could not be built
  std::vector<std::string> refused{};  // pointers inside the layout that have been complained about
  Index model_batch = 0;  // the batch in the model's file: sizes of the batch sum to it or to that of the passes; 0: to anything
};

// All that is wrong: axes the mesh has not, dims no one has, parts that do not fit, tensors, layers and devices no one knows, two
// dims of an input or a layer's output on one axis, placed layers whose own explicit parts give something to other devices.
// Explicit sizes of slid-over dims speak of the inputs' size; those of the batch are rescaled to the batch of the passes.
std::vector<RuleComplaint> check_rules(const RuleSubject& subject, const LayoutRules& rules);
std::vector<RuleComplaint> check_rules(const Passes& passes, const Mesh& mesh, const LayoutRules& rules);
// What planning cannot do with rules that are right, at the rule which asks for it.
std::optional<RuleComplaint> check_layouts(const Passes& passes, const Mesh& mesh, const LayoutRules& rules);

// Without the rules of dims, tensors and layers that these passes do not have: for a part of the step that they were written for.
LayoutRules rules_within(const Passes& passes, LayoutRules rules);

// UserError with the first complaint, for rules that were written in C++.
void require_rules(const Passes& passes, const Mesh& mesh, const LayoutRules& rules);

}  // namespace motley
