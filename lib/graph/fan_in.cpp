// SPDX-License-Identifier: Apache-2.0
#include "graph/fan_in.h"

#include <algorithm>
#include <map>

#include "base/at.h"
#include "graph/nodes.h"

namespace motley {

namespace {

bool is_product(const Pass& p) {
  return (p.op == KernelOp::conv2d && p.kind != PassKind::backward_filter) ||
         (p.op == KernelOp::dense && p.kind == PassKind::forward);
}

Index contracted(const Passes& all, const Pass& p) {
  if (p.op == KernelOp::conv2d) {
    const Shape& weight = at(all.tensors, p.reads[1].tensor).shape;
    return weight.elements() / weight[0].size;
  }
  Index n = 1;
  for (std::size_t i = 0; i < p.indices.size(); i++)
    if (std::find(p.writes.indices.begin(), p.writes.indices.end(), static_cast<int>(i)) == p.writes.indices.end())
      n *= p.indices[i].size;
  return n;
}

// Whether every value that is written is one that was read. writers: of the written tensor; several of one without index maps are
// added.
bool moves_values(const Pass& p, int writers) {
  if (p.op != KernelOp::map || !p.formula.code.empty() || p.scale != 1.0 || p.own.of >= 0) return false;
  return !p.index_maps.empty() || (writers == 1 && p.writes.indices.size() == p.indices.size());
}

}  // namespace

void set_fan_in(Passes& all) {
  std::map<std::string, Index> of_layer;  // its first product's
  for (const Pass& p : all.passes)
    if (is_product(p)) of_layer.emplace(p.layer, contracted(all, p));
  std::vector<std::vector<int>> moved(all.tensors.size());  // the parameters whose values a tensor has; of those still to be set
  for (const int p : all.parameters) {
    StepTensor& parameter = at(all.tensors, p);
    if (const auto own = of_layer.find(parameter.layer); own != of_layer.end())
      parameter.fan_in = own->second;
    else
      at(moved, p).push_back(p);
  }
  std::vector<bool> known(all.tensors.size(), false);
  std::vector<int> writers(all.tensors.size(), 0);
  for (const Pass& p : all.passes) at(writers, p.writes.tensor)++;
  for (const Pass& p : all.passes) {
    if (moves_values(p, at(writers, p.writes.tensor))) {
      std::vector<int>& to = at(moved, p.writes.tensor);
      for (const int parameter : at(moved, p.reads.front().tensor)) to.push_back(parameter);
    }
    if (!is_product(p)) continue;
    for (const PassOperand& in : p.reads)
      for (const int parameter : at(moved, in.tensor))
        if (!at(known, parameter)) {
          at(all.tensors, parameter).fan_in = contracted(all, p);
          at(known, parameter) = true;
        }
  }
}

}  // namespace motley
