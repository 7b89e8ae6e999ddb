// SPDX-License-Identifier: Apache-2.0
#include "graph/optimizers.h"

namespace motley {

namespace {

std::map<std::string, OptimizerKind>& kinds() {
  static std::map<std::string, OptimizerKind> list;
  return list;
}

}  // namespace

void check_values(const std::string& kind, double learning_rate, const std::vector<OptimizerKey>& keys,
                  const std::vector<double>& values) {
  const auto check_value = [&](const OptimizerKey& key, double value) {
    require_within(kind + ": " + key.name, value, key.interval());
  };
  check_value(learning_rate_key(), learning_rate);
  for (std::size_t i = 0; i < keys.size(); i++) check_value(keys[i], values[i]);
}

OptimizerKind::OptimizerKind(const std::string& name, std::vector<OptimizerKey> its_keys, Make its_make)
    : keys(std::move(its_keys)), make(std::move(its_make)) {
  kinds().emplace(name, *this);
}

const std::map<std::string, OptimizerKind>& OptimizerKind::all() {
  return kinds();
}

}  // namespace motley
