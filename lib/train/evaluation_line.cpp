// SPDX-License-Identifier: Apache-2.0
#include "train/evaluation_line.h"

#include <fmt/format.h>

#include <utility>

#include "base/at.h"
#include "base/clock.h"
#include "plan/plan_data.h"

namespace motley {

std::function<void(Index)> evaluation_line(Index samples, std::optional<double> expected_seconds,
                                           std::function<void(const std::string&)> say) {
  if (!say) return {};
  constexpr double kLong = 1;  // seconds
  return [samples, at_once = expected_seconds.value_or(0) > kLong, start = seconds_now(), say = std::move(say)](Index done) {
    if (at_once || seconds_now() - start > kLong) say(fmt::format("evaluating {} of {} samples", done, samples));
  };
}

std::optional<double> predicted_seconds(const Plan& evaluation, const std::string& image, Index samples) {
  const PlanData& plan = evaluation.data();
  const int input = plan.passes.find(image);
  if (input < 0 || !plan.step_seconds) return std::nullopt;
  const Index batch = at(plan.passes.tensors, input).shape[0].size;
  return *plan.step_seconds * static_cast<double>((samples + batch - 1) / batch);
}

}  // namespace motley
