// SPDX-License-Identifier: Apache-2.0
#include "graph/layer_kind.h"

namespace motley {

namespace {

std::map<std::string, const LayerKind*>& known() {
  static std::map<std::string, const LayerKind*> list;
  return list;
}

}  // namespace

LayerKind::LayerKind(const std::string& n, int r, std::vector<LayerKey> k, std::function<Tensor(const LayerArguments&)> b,
                     LayerForm f)
    : name(n), reads(r), keys(std::move(k)), build(std::move(b)), form(f) {
  known().emplace(name, this);
}

const LayerKind* LayerKind::find(const std::string& name) {
  const auto found = known().find(name);
  return found == known().end() ? nullptr : found->second;
}

std::vector<const LayerKind*> LayerKind::all() {
  std::vector<const LayerKind*> out;
  for (const auto& [name, kind] : known()) out.push_back(kind);
  return out;
}

}  // namespace motley
