// SPDX-License-Identifier: Apache-2.0
/// @file
/// How the learning rate changes from step to step.
#pragma once
#include <motley/dims.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace motley {
/// @addtogroup network
/// @{

/// What of an evaluation is watched. A gain is a smaller loss, a greater accuracy.
enum class Watched : std::uint8_t { test_loss, test_accuracy };
/// As in a job, by Watched.
inline constexpr std::array<const char*, 2> kWatchedNames{"test_loss", "test_accuracy"};

/// The learning rate by step. It is computed when a step runs, so it changes no plan and no kernel.
struct RateSchedule {
  /// constant: the optimizer's rate r; linear, cosine, polynomial: from r to `final` in the last step, along a line, half a cosine
  /// wave (Loshchilov and Hutter, SGDR, equation 5), or `final + (r - final) * (1 - t)^power`, t from 0 to 1; step: times `factor`
  /// from each milestone's step on; one_cycle (Smith and Topin, arXiv 1708.07120; PyTorch's OneCycleLR, the momentum apart): of n
  /// steps s from 0 the first `rise * n - 1` from `initial` to r, the others to `final`, both along half a cosine wave; plateau
  /// (PyTorch's ReduceLROnPlateau): times `factor` after more than `patience` evaluations without a gain (Trainer::evaluated).
  enum class Kind : std::uint8_t { constant, linear, cosine, step, one_cycle, polynomial, plateau };
  Kind kind = Kind::constant;     ///< shape of the schedule
  Index warmup_steps = 0;         ///< step i of these has i / warmup_steps of the rate; the shape begins after them. Not one_cycle
  Index steps = 0;                ///< those with `final`: number of all steps, at least 1; the rate stays `final` after them
  std::optional<double> final{};  ///< the last step's rate; empty: 0, one_cycle: 1 / 250000 of the optimizer's
  std::vector<Index> milestones{};     ///< step: steps counted from 1, ascending
  double factor = 0.1;                 ///< step, plateau: what each milestone, each fall multiplies by; plateau: below 1
  std::optional<double> initial{};     ///< one_cycle: the first step's rate; empty: 1 / 25 of the optimizer's
  double rise = 0.3;                   ///< one_cycle: share of the steps in which the rate rises, above 0
  double power = 1;                    ///< polynomial: above 0; 1: linear
  Watched watch = Watched::test_loss;  ///< plateau: what the evaluations give
  Index patience = 10;                 ///< plateau: evaluations without a gain that change nothing yet
  double threshold = 1e-4;             ///< plateau: part of the best value by which another one must be better to be a gain
  double minimum = 0;                  ///< plateau: the least rate; at most the optimizer's
  /// The rate of this step, counted from 1. rate: the optimizer's; scale: plateau: the product of the factors so far.
  double at(double rate, Index step, double scale = 1) const;
  bool operator==(const RateSchedule&) const = default;
};
/// As in a job, by RateSchedule::Kind.
inline constexpr std::array<const char*, 7> kRateKindNames{"constant",  "linear",     "cosine", "step",
                                                           "one_cycle", "polynomial", "plateau"};

/// @}
}  // namespace motley
