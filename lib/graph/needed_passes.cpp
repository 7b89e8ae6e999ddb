// SPDX-License-Identifier: Apache-2.0
#include "graph/needed_passes.h"

#include <set>

#include "base/at.h"

namespace motley {

namespace {

std::vector<bool> needed_tensors(const Passes& all) {
  std::vector<bool> needed(all.tensors.size(), false);
  std::vector<int> open = all.outputs;
  open.insert(open.end(), all.parameter_gradients.begin(), all.parameter_gradients.end());
  std::vector<std::vector<int>> writers(all.tensors.size());
  for (std::size_t k = 0; k < all.passes.size(); k++) at(writers, all.passes[k].writes.tensor).push_back(static_cast<int>(k));
  while (!open.empty()) {
    const int tensor = open.back();
    open.pop_back();
    if (tensor < 0 || needed[static_cast<std::size_t>(tensor)]) continue;
    needed[static_cast<std::size_t>(tensor)] = true;
    for (const int writer : at(writers, tensor))
      for (const PassOperand& in : at(all.passes, writer).reads) open.push_back(in.tensor);
  }
  return needed;
}

bool stays(TensorRole role) {
  return role == TensorRole::input || role == TensorRole::label || role == TensorRole::seed || role == TensorRole::parameter;
}

}  // namespace

void drop_unneeded(Passes& all) {
  const std::vector<bool> needed = needed_tensors(all);
  std::erase_if(all.passes, [&](const Pass& p) { return !at(needed, p.writes.tensor); });
  std::vector<int> number(all.tensors.size(), -1);  // the new one of each tensor
  std::vector<StepTensor> kept;
  for (std::size_t t = 0; t < all.tensors.size(); t++) {
    if (!needed[t] && !stays(all.tensors[t].role)) continue;
    number[t] = static_cast<int>(kept.size());
    kept.push_back(std::move(all.tensors[t]));
  }
  all.tensors = std::move(kept);
  const auto renumber = [&](int& tensor) {
    if (tensor >= 0) tensor = at(number, tensor);
  };
  for (StepTensor& t : all.tensors) renumber(t.of);
  for (Pass& p : all.passes) {
    for (PassOperand& in : p.reads) renumber(in.tensor);
    renumber(p.writes.tensor);
  }
  for (std::vector<int>* list : {&all.parameters, &all.parameter_gradients, &all.outputs})
    for (int& tensor : *list) renumber(tensor);
  for (Statistic& s : all.statistics) renumber(s.parameter);
}

}  // namespace motley
