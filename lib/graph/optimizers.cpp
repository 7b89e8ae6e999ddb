// SPDX-License-Identifier: Apache-2.0
#include "graph/optimizers.h"

namespace motley {

namespace {

std::map<std::string, OptimizerKind>& kinds() {
  static std::map<std::string, OptimizerKind> list;
  return list;
}

}  // namespace

OptimizerKind::OptimizerKind(const std::string& name, std::vector<OptimizerKey> its_keys, Make its_make)
    : keys(std::move(its_keys)), make(std::move(its_make)) {
  kinds().emplace(name, *this);
}

const std::map<std::string, OptimizerKind>& OptimizerKind::all() {
  return kinds();
}

}  // namespace motley
