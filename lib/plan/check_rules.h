// SPDX-License-Identifier: Apache-2.0
// Whether layout rules fit a model and a mesh: all checks that are possible before anything is planned.
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
  std::string pointer{};  // inside the layout object, as "/split/filters3/parts"; may be longer than what the file contains
  std::string text{};
};

// What rules are checked against. If the model or the mesh is itself wrong: the known part of it; the rest is not checked.
struct RuleSubject {
  const Passes* passes = nullptr;  // of the layers that could be built
  const Mesh* mesh = nullptr;
  const std::vector<Axis>* axes = nullptr;       // of the mesh
  const std::vector<Device>* devices = nullptr;  // of the mesh
  std::function<bool(const std::string&)> may_be = [](const std::string&) {
    return false;
  };                                   // a dim or layer that could not be built
  std::vector<std::string> refused{};  // pointers inside the layout that already have a complaint
  Index model_batch = 0;  // the batch in the model's file: sizes of the batch sum to it or to that of the passes; 0: any sum
};

// All faults: axes that the mesh does not have, dims that no tensor has, parts that do not fit, unknown tensors, layers and
// devices, two dims of an input or a layer's output on one axis, placed layers whose own explicit parts give something to other
// devices. Explicit sizes of slid-over dims refer to the inputs' size; those of the batch are rescaled to the batch of the passes.
std::vector<RuleComplaint> check_rules(const RuleSubject& subject, const LayoutRules& rules);
std::vector<RuleComplaint> check_rules(const Passes& passes, const Mesh& mesh, const LayoutRules& rules);
// What planning cannot do with valid rules, reported at the rule that requires it.
std::optional<RuleComplaint> check_layouts(const Passes& passes, const Mesh& mesh, const LayoutRules& rules);

// The rules without those for dims, tensors and layers that these passes do not have: for a part of the step that the rules were
// written for.
LayoutRules rules_within(const Passes& passes, LayoutRules rules);

// The axes of a mesh, and its devices in their order.
DeviceOrder order_of(const Mesh& mesh);
// These devices along such axes and in this order; nothing: it has other devices, or its axes do not fit them.
std::optional<Mesh> mesh_in_order(const DeviceOrder& order, const Mesh& devices);
// "outer 2 x inner 2 of a, b, c, d"
std::string order_text(const DeviceOrder& order);

// UserError with the first complaint, for rules that were written in C++.
void require_rules(const Passes& passes, const Mesh& mesh, const LayoutRules& rules);

}  // namespace motley
