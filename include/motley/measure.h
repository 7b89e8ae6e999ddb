// SPDX-License-Identifier: Apache-2.0
/// @file
/// Measures how long a step's kernels and exchanges take on a mesh.
#pragma once
#include <motley/plan.h>
#include <motley/runtime.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace motley {
/// @addtogroup planning
/// @{

/// When to measure: only what the file lacks, always, or never.
enum class Measure : std::uint8_t { if_missing, always, never };

/// Options of measure(). Every field has a default.
struct MeasureOptions {
  double budget_seconds = 60;          ///< for measuring; kernels that do not fit are measured with a part of the batch
  Measure when = Measure::if_missing;  ///< whether an existing file may be used
  /// Called on rank 0, from time to time. Empty: the lines are shown on stderr, as the program shows them.
  std::function<void(const std::string& line)> progress{};
  std::function<void(const std::string& line)> warn{};  ///< on rank 0, at the end: what the budget was too small for
  /// An inference step of the same model, for which the measured plan leaves memory.
  std::optional<Step> evaluation{};
};

/// Times every distinct kernel that this step can need under the rules (at every candidate part), on all devices at the same time,
/// and the links. Collective. Keeps the result in `keep_in` (written by rank 0); what the file already has for the same devices is
/// not measured again, and a file that an earlier call has completed for the same step, mesh and rules (Profile::complete_for) is
/// taken as it is: from the second call on the plan stays the same. While it runs, SIGINT and SIGTERM end the process at once
/// (StopsAtOnce).
/// @return the profile, the same on every rank
/// @throws UserError Measure::never but something is missing (66), a profile of other devices, a damaged file, a file that would be
///   replaced and is not a profile, a budget that is not above 0
Profile measure(Runtime& rt, const Mesh& mesh, const Step& step, const LayoutRules& rules, const std::filesystem::path& keep_in,
                const MeasureOptions& options = {});

/// @}
}  // namespace motley
