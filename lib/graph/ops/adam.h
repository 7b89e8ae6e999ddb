// SPDX-License-Identifier: Apache-2.0
// What optimizers with Adam's two moments share (T: Adam, AdamW, Lamb).
#pragma once
#include <string>
#include <vector>

#include "graph/optimizers.h"

namespace motley {

// weight_decay: documentation of that key.
template <class T>
std::vector<OptimizerKey> adam_keys(const std::string& weight_decay) {
  return {{"beta1", "decay rate of the first moment, the mean of the gradients", T{}.beta1, 1, true},
          {"beta2", "decay rate of the second moment, the mean of the squared gradients", T{}.beta2, 1, true},
          {"epsilon", "added to the square root of the second moment", T{}.epsilon},
          {"weight_decay", weight_decay, T{}.weight_decay}};
}

// UserError: a value is outside its range.
template <class T>
void check_adam_values(const std::string& kind, const T& its, const std::vector<OptimizerKey>& keys) {
  check_values(kind, its.learning_rate, keys, {its.beta1, its.beta2, its.epsilon, its.weight_decay});
}

// Adam with an optimizer's values, which are valid.
template <class T>
Adam moments_of(const std::string& kind, const T& its, const std::vector<OptimizerKey>& keys) {
  check_adam_values(kind, its, keys);
  return {its.learning_rate, its.beta1, its.beta2, its.epsilon, its.weight_decay, its.decay};
}

template <class T>
Optimizer adam_like(double rate, const std::vector<double>& values, Decay decay) {
  return T{rate, values[0], values[1], values[2], values[3], decay};
}

}  // namespace motley
