// SPDX-License-Identifier: Apache-2.0
// Shared by the losses that are a mean over all elements of a function of x and its label.
#pragma once
#include <motley/ops.h>

#include <functional>
#include <string>
#include <vector>

#include "base/interval.h"
#include "kernels/value.h"

namespace motley {

inline constexpr Interval<double> kHuberDelta{.least = 1e-30, .most = 1e30};

struct MeanLoss {
  std::function<Value(const Value& x, const Value& y)> of{};
  std::function<Value(const Value& x, const Value& y)> slope{};  // d loss / dx, and with x and y exchanged d loss / dy
};

// The loss's formulas, for a Compiled.
std::vector<Formula> formulas_of(const MeanLoss& loss);
// UserError: labels that are not floats with x's dims.
Tensor mean_loss(const std::string& op, const Tensor& x, const Tensor& labels, const std::string& name, const MeanLoss& loss);

}  // namespace motley
