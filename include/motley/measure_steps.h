// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs real steps of the plans that a prediction cannot tell apart.
#pragma once
#include <motley/plan.h>
#include <motley/profile.h>
#include <motley/runtime.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace motley {
/// @addtogroup planning
/// @{

/// Options of measure_steps(). Every field has a default.
struct MeasureStepsOptions {
  double seconds = 20;  ///< for all of it; where three rounds of two plans do not fit, nothing is run
  /// An inference step of the same model, for which the plans leave memory.
  std::optional<Step> evaluation{};
  std::function<void(const std::string& line)> progress{};  ///< called on rank 0, from time to time
  std::function<void(const std::string& line)> warn{};      ///< on rank 0: why nothing was run
};

/// Runs real steps of the plan that balance() chooses, of even parts, of the fastest rank alone, and of those that are predicted
/// within 15 % of the chosen one and differ from it noticeably, at most 8 plans, in turn: what disturbs the machine for a second or
/// a minute hits all of them. Steps have parameters and inputs of their own, of the step's shapes; one plan is in memory at a time.
/// The medians relative to the chosen plan become Profile::steps, and balance() takes the fastest of the plans that ran. In f32.
/// Where the rules leave no parts open, on one rank, and where the profile has such steps already, nothing is run. While it runs,
/// SIGINT and SIGTERM end the process at once (StopsAtOnce). Collective. If the profile changes, rank 0 writes it to `keep_in`
/// (empty: nowhere).
/// @return the profile, the same on every rank
/// @throws UserError as balance(); a file that cannot be written (74)
Profile measure_steps(Runtime& rt, const Mesh& mesh, const Step& step, const LayoutRules& rules, Profile profile,
                      const std::filesystem::path& keep_in, const MeasureStepsOptions& options = {});

/// @}
}  // namespace motley
