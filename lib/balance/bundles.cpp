// SPDX-License-Identifier: Apache-2.0
#include "balance/bundles.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/at.h"

namespace motley {

namespace {

struct Reads {
  std::set<std::string> layers{};  // whose results its forward passes read, or which add to its own
  bool alone = false;              // it has a parameter of several dims, or reads an input
};

std::map<std::string, Reads> reads_of_layers(const Passes& passes) {
  std::map<std::string, Reads> out;
  for (const Pass& p : passes.passes) {
    if (p.kind != PassKind::forward || p.layer.empty()) continue;
    Reads& its = out[p.layer];
    for (const PassOperand& o : p.reads) {
      const StepTensor& t = at(passes.tensors, o.tensor);
      its.alone = its.alone || t.role == TensorRole::input || (t.role == TensorRole::parameter && t.shape.rank() > 1);
      if (t.role == TensorRole::activation && t.layer != p.layer) its.layers.insert(t.layer);
    }
    const StepTensor& made = at(passes.tensors, p.writes.tensor);
    if (made.role == TensorRole::activation && made.layer != p.layer) out[made.layer].layers.insert(p.layer);
  }
  return out;
}

}  // namespace

Bundles bundles_of(const Passes& passes) {
  const std::map<std::string, Reads> reads = reads_of_layers(passes);
  Bundles out;
  std::map<std::string, int> of_layer{{"", -1}};
  const auto bundle_of = [&](const std::string& layer) {
    const auto known = of_layer.find(layer);
    if (known != of_layer.end()) return known->second;
    const auto its = reads.find(layer);
    const bool joins = its != reads.end() && !its->second.alone && its->second.layers.size() == 1 &&
                       of_layer.contains(*its->second.layers.begin());
    const int bundle = joins ? of_layer.at(*its->second.layers.begin()) : static_cast<int>(out.list.size());
    if (!joins) out.list.emplace_back();
    at(out.list, bundle).layers.push_back(layer);
    of_layer.emplace(layer, bundle);
    return bundle;
  };
  for (const Pass& p : passes.passes) out.of_pass.push_back(bundle_of(p.layer));
  for (const StepTensor& t : passes.tensors) out.of_tensor.push_back(bundle_of(t.layer));
  return out;
}

}  // namespace motley
