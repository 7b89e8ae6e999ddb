// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/predictor.h>

#include <functional>
#include <optional>
#include <string>

namespace motley {

// For EvaluateOptions::progress: passes "evaluating 4096 of 10000 samples" to `say` once the evaluation has taken a second, or from
// its beginning if it is expected to take longer.
std::function<void(Index)> evaluation_line(Index samples, std::optional<double> expected_seconds,
                                           std::function<void(const std::string&)> say);
// What the plan predicts for all its batches.
std::optional<double> predicted_seconds(const Plan& evaluation, const std::string& image, Index samples);

}  // namespace motley
