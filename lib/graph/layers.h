// SPDX-License-Identifier: Apache-2.0
// The layers of a step by number, in the order of their first passes.
#pragma once
#include <string>
#include <vector>

#include "graph/passes.h"

namespace motley {

struct Layers {
  std::vector<std::string> names{};
  std::vector<int> of_pass{}, of_tensor{};  // numbers; -1: inputs, which belong to no layer
};
Layers layers_of(const Passes& passes);

// Whether a layer makes this activation on the way to its result: the statistics of a norm, a softmax's maximum. Its gradient is
// the same. Such tensors have names that no model file has.
bool is_inner(const Passes& passes, int tensor);

}  // namespace motley
