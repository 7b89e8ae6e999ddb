// SPDX-License-Identifier: Apache-2.0
#include "graph/layers.h"

#include <unordered_map>

#include "base/at.h"

namespace motley {

Layers layers_of(const Passes& passes) {
  Layers out;
  std::unordered_map<std::string, int> numbers;
  const auto number = [&](const std::string& layer) {
    if (layer.empty()) return -1;
    const auto [found, is_new] = numbers.emplace(layer, static_cast<int>(out.names.size()));
    if (is_new) out.names.push_back(layer);
    return found->second;
  };
  for (const Pass& p : passes.passes) out.of_pass.push_back(number(p.layer));
  for (const StepTensor& t : passes.tensors) out.of_tensor.push_back(number(t.layer));
  return out;
}

bool is_inner(const Passes& passes, int tensor) {
  const StepTensor& t = at(passes.tensors, tensor);
  if (t.role == TensorRole::activation) return t.name != t.layer;
  return t.role == TensorRole::gradient && t.of >= 0 && is_inner(passes, t.of);
}

}  // namespace motley
