// SPDX-License-Identifier: Apache-2.0
/// @file
/// How the learning rate changes from step to step.
#pragma once
#include <motley/dims.h>

#include <vector>

namespace motley {
/// @addtogroup network
/// @{

/// The learning rate by step. It is computed when a step runs, so it changes no plan and no kernel.
struct RateSchedule {
  /// constant: the optimizer's rate; linear, cosine: from that rate to `final` in the last step, along a line or half a cosine wave
  /// (Loshchilov and Hutter, SGDR, equation 5); step: times `factor` from each milestone's step on.
  enum class Kind : std::uint8_t { constant, linear, cosine, step };
  Kind kind = Kind::constant;       ///< shape of the schedule
  Index warmup_steps = 0;           ///< step i of these has i / warmup_steps of the optimizer's rate; the shape begins after them
  Index steps = 0;                  ///< linear, cosine: number of all steps, at least 1; the rate stays `final` after them
  double final = 0;                 ///< linear, cosine: the last step's rate
  std::vector<Index> milestones{};  ///< step: steps counted from 1, ascending
  double factor = 0.1;              ///< step: what each milestone multiplies by
  double at(double rate, Index step) const;  ///< the rate of this step, counted from 1; rate: the optimizer's
  bool operator==(const RateSchedule&) const = default;
};

/// @}
}  // namespace motley
