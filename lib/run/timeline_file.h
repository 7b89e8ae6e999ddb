// SPDX-License-Identifier: Apache-2.0
// The last steps of a RunTrace as a file of the run directory: what `motley trace RUN --chrome FILE` and `motley report` draw.
#pragma once
#include <filesystem>

#include "base/open_directory.h"
#include "run/run_trace.h"

namespace motley {

constexpr const char* kTimelineFile = "timeline.json";  // in the run directory

// So that the file stays below some megabytes; the last step is kept always.
struct TimelineLimits {
  std::size_t steps = 10;       // of the trace, the last ones
  std::size_t events = 60'000;  // of all ranks in all kept steps
};

// Times are in nanoseconds from the first measured event that is kept. UserError (74)
void save_timeline(const RunTrace& trace, const FileIn& file, const TimelineLimits& limits = {});
// UserError: 66 missing, 65 damaged.
RunTrace load_timeline(const std::filesystem::path& file);

}  // namespace motley
