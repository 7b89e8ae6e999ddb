// SPDX-License-Identifier: Apache-2.0
// What a run's directory says of it, as far as it is there: of a run that failed or is still running some files are missing.
#pragma once
#include <motley/plan.h>
#include <motley/profile.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "run/run_trace.h"
#include "train/run_files.h"

namespace motley {

// A line of metrics.jsonl; what it lacks, or has as null, is not set.
struct MetricsPoint {
  Index step = 0;
  std::optional<double> loss{}, learning_rate{}, seconds{}, test_loss{}, test_accuracy{};
};

struct ReportedRun {
  std::string name{};                     // on the page
  std::optional<TrainSummary> summary{};  // none: it has not ended, or
  bool damaged_summary = false;           // run.json cannot be read
  std::vector<MetricsPoint> metrics{};    // in the order written
  std::optional<RunTrace> timeline{};     // its last steps
  std::optional<Plan> plan{};             // for the caller to add, and the profile that it was made from
  Profile profile{};
  std::vector<std::string> missing{};  // a sentence for each thing that is not there or cannot be read
};

// Reads run.json, metrics.jsonl and timeline.json. What is wrong with them is in `missing`.
ReportedRun read_run(const std::filesystem::path& run);

}  // namespace motley
