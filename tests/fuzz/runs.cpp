// SPDX-License-Identifier: Apache-2.0
// Files of a run directory that are read again: run.json, step_times.json, timeline.json, metrics.jsonl.
#include "run/timeline_file.h"
#include "run/trace_summary.h"
#include "tests/fuzz/fuzz.h"
#include "train/run_files.h"

namespace motley::fuzz {

void take(std::string_view input) {
  const std::string file = file_of("input.json", input);
  is_taken(file, [&] { static_cast<void>(load_run_json(file)); });
  is_taken(file, [&] {
    const TraceSummary summary = load_trace_summary(file);
    const std::string copy = (folder() / "copy.json").string();
    save(summary, copy);
    const TraceSummary again = load_trace_summary(copy);
    require(to_text(again) == to_text(summary), "what was written and read is the same: " + to_text(summary));
  });
  is_taken(file, [&] { static_cast<void>(load_timeline(file)); });
  is_taken(file, [&] { static_cast<void>(last_line(file)); });
  is_taken(file, [&] { static_cast<void>(last_line(file, 3)); });
}

}  // namespace motley::fuzz
