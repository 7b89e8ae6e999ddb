// SPDX-License-Identifier: Apache-2.0
#include "graph/optimizers.h"

#include <fmt/format.h>
#include <motley/error.h>

namespace motley {

namespace {

std::map<std::string, OptimizerKind>& kinds() {
  static std::map<std::string, OptimizerKind> list;
  return list;
}

void check_value(const std::string& kind, const OptimizerKey& key, double value) {
  if (value >= 0 && value <= key.most && !(key.below && value == key.most)) return;
  const bool open = key.most == OptimizerKey{}.most;
  throw UserError(fmt::format("{}: {}: expected a number {}, found {:g}", kind, key.name,
                              open        ? "of at least 0"
                              : key.below ? fmt::format("from 0 to below {:g}", key.most)
                                          : fmt::format("from 0 to {:g}", key.most),
                              value));
}

}  // namespace

void check_values(const std::string& kind, double learning_rate, const std::vector<OptimizerKey>& keys,
                  const std::vector<double>& values) {
  check_value(kind, learning_rate_key(), learning_rate);
  for (std::size_t i = 0; i < keys.size(); i++) check_value(kind, keys[i], values[i]);
}

OptimizerKind::OptimizerKind(const std::string& name, std::vector<OptimizerKey> its_keys, Make its_make)
    : keys(std::move(its_keys)), make(std::move(its_make)) {
  kinds().emplace(name, *this);
}

const std::map<std::string, OptimizerKind>& OptimizerKind::all() {
  return kinds();
}

}  // namespace motley
