// SPDX-License-Identifier: Apache-2.0
// Optimizers: each is one file in ops/, and its keys in a job's "optimizer" are found by its name.
#pragma once
#include <motley/step.h>

#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/interval.h"
#include "kernels/value.h"

namespace motley {

struct OptimizerKey {  // a number from 0 to `most`, or true or false
  std::string name{}, doc{};
  double usual = 0, most = std::numeric_limits<double>::max();
  bool below = false;  // `most` itself is not allowed
  bool flag = false;   // its value is 1 or 0
  Interval<double> interval() const { return {.most = most, .below = below}; }
};

// A key of every optimizer.
inline OptimizerKey learning_rate_key() {
  return {.name = "learning_rate", .doc = "step size of the update"};
}

// values: in the order of the keys. UserError: a value is outside its key's range.
void check_values(const std::string& kind, double learning_rate, const std::vector<OptimizerKey>& keys,
                  const std::vector<double>& values);

// Declared at namespace scope: `static const OptimizerKind kSgdKind("sgd", {...}, [](double rate, const auto& values) {...});`
struct OptimizerKind {
  // values: in the order of the keys
  using Make = std::function<Optimizer(double learning_rate, const std::vector<double>& values, Decay decay)>;
  OptimizerKind(const std::string& name, std::vector<OptimizerKey> its_keys, Make its_make);
  std::vector<OptimizerKey> keys{};  // in addition to "kind", "learning_rate" and "decay"
  Make make{};
  static const std::map<std::string, OptimizerKind>& all();  // by name
};

// The first operands of an update's formulas.
inline Value learning_rate() {
  return scalar(0);
}
inline Value gradient_factor() {
  return scalar(1);
}
inline Value weight_decay() {
  return scalar(2);
}
inline constexpr int kUpdateScalars = 3;  // these; the optimizer's own come next

}  // namespace motley
