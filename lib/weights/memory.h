// SPDX-License-Identifier: Apache-2.0
// What training remembers of its evaluations. A checkpoint keeps it besides the State.
#pragma once
#include <motley/learning_rate.h>

#include <optional>
#include <string>
#include <vector>

namespace motley {

inline const std::vector<std::string> kWatchedWords(kWatchedNames.begin(), kWatchedNames.end());

// The best of the values that are watched, and how many have followed it.
struct Gains {
  Watched watch = Watched::test_loss;
  std::optional<double> best{};  // nothing: no value yet, or none that is finite
  Index step = 0;                // after which the best was found
  Index without_gain = 0;        // evaluations since then
  Index evaluated = -1;          // the step of the last evaluation; -1: there is none
  bool operator==(const Gains&) const = default;
};

struct RunMemory {
  std::optional<double> learning_rate{};  // Trainer::set_learning_rate; nothing: the schedule's
  Gains plateau{};                        // of a schedule of this kind; without_gain: since the last fall too
  double scale = 1;                       // product of its falls
  Gains gains{};                          // of keep_best and stop_after_evaluations_without_gain
  Index kept = -1;                        // the step of the best checkpoint; -1: there is none
  bool kept_as_best = false;              // it was written only because it is the best
  bool operator==(const RunMemory&) const = default;
};

}  // namespace motley
