// SPDX-License-Identifier: Apache-2.0
#include <motley/learning_rate.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace motley {

namespace {

constexpr double kInitialPart = 25, kFinalPart = 1e4;  // PyTorch's div_factor and final_div_factor

}  // namespace

double RateSchedule::at(double rate, Index step, double scale) const {
  const auto wave = [](double from, double to, double done) {
    return to + (from - to) * (1 + std::cos(std::numbers::pi * done)) / 2;
  };
  if (kind == Kind::one_cycle) {
    const double last = static_cast<double>(steps - 1), peak = rise * static_cast<double>(steps) - 1;
    const double first = initial.value_or(rate / kInitialPart), s = std::min(static_cast<double>(step - 1), last);
    if (s <= peak) return peak > 0 ? wave(first, rate, s / peak) : rate;
    return wave(rate, final.value_or(rate / kInitialPart / kFinalPart), (s - peak) / (last - peak));
  }
  if (kind == Kind::plateau) rate *= scale;
  if (step <= warmup_steps) return rate * static_cast<double>(step) / static_cast<double>(warmup_steps);
  if (kind == Kind::plateau) return std::max(minimum, rate);
  const Index first = std::max<Index>(warmup_steps, 1);  // the step with the optimizer's rate
  const double done =
      std::clamp(static_cast<double>(step - first) / static_cast<double>(std::max<Index>(steps - first, 1)), 0.0, 1.0);
  const double end = final.value_or(0);
  switch (kind) {
    case Kind::constant: return rate;
    case Kind::linear: return rate + (end - rate) * done;
    case Kind::cosine: return wave(rate, end, done);
    case Kind::polynomial: return end + (rate - end) * std::pow(1 - done, power);
    case Kind::step:
    case Kind::one_cycle:
    case Kind::plateau: break;
  }
  const auto passed = std::count_if(milestones.begin(), milestones.end(), [&](Index m) { return m <= step; });
  return rate * std::pow(factor, static_cast<double>(passed));
}

}  // namespace motley
