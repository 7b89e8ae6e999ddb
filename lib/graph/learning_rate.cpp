// SPDX-License-Identifier: Apache-2.0
#include <motley/learning_rate.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace motley {

double RateSchedule::at(double rate, Index step) const {
  if (step <= warmup_steps) return rate * static_cast<double>(step) / static_cast<double>(warmup_steps);
  const Index first = std::max<Index>(warmup_steps, 1);  // the step with the optimizer's rate
  const double done =
      std::clamp(static_cast<double>(step - first) / static_cast<double>(std::max<Index>(steps - first, 1)), 0.0, 1.0);
  switch (kind) {
    case Kind::constant: return rate;
    case Kind::linear: return rate + (final - rate) * done;
    case Kind::cosine: return final + (rate - final) * (1 + std::cos(std::numbers::pi * done)) / 2;
    case Kind::step: break;
  }
  const auto passed = std::count_if(milestones.begin(), milestones.end(), [&](Index m) { return m <= step; });
  return rate * std::pow(factor, static_cast<double>(passed));
}

}  // namespace motley
