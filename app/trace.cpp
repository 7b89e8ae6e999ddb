// SPDX-License-Identifier: Apache-2.0
// `motley trace RUN`: where a run's time goes, and where its predicted and measured steps differ.
#include <motley/error.h>

#include <optional>

#include "app/console.h"
#include "app/outputs.h"
#include "app/run_directory.h"
#include "app/run_to_read.h"
#include "app/verbs.h"
#include "base/files.h"
#include "run/chrome_trace.h"
#include "run/timeline_file.h"
#include "run/trace_summary.h"

namespace motley::app {

namespace {

namespace fs = std::filesystem;

// The file in the run, by its name or that of older runs.
fs::path require_file(const fs::path& run, const std::string& name, const std::string& old_name) {
  if (fs::exists(run / name)) return run / name;
  if (!old_name.empty() && fs::exists(run / old_name)) return run / old_name;
  throw UserError(run.string() + " holds no " + name +
                      ": the run has not ended, has failed, or was made by an older motley; `motley train` writes the file when "
                      "it ends or is stopped",
                  Exit::missing);
}

}  // namespace

void require_run(const fs::path& run) {
  const std::string name = run.string();
  if (!fs::exists(run))
    throw UserError(name + ": no such run directory; `motley train` prints its name (runs/<job>-<UTC time> without --run-dir)",
                    Exit::missing);
  if (!fs::is_directory(run)) throw UserError(name + " is a file; give the run's directory", Exit::data);
  if (!fs::exists(run / kRunFile) && !fs::exists(run / kResolvedJob))
    throw UserError(name + " is not a run directory: there is no " + kRunFile + " in it; give one that `motley train` wrote",
                    Exit::data);
}

int trace(const Options& options) {
  const fs::path& run = options.run_directory;
  require_run(run);
  std::optional<RunTrace> timeline;
  if (!options.chrome.empty()) timeline = load_timeline(require_file(run, kTimelineFile, ""));
  TraceSummary summary = load_trace_summary(require_file(run, kStepTimesFile, kOldStepTimesFile));
  if (timeline) {
    require_output("--chrome", options.chrome, OutputKind::trace);
    Console console(options, Console::Voice::speaks);
    give_result(chrome_trace(*timeline), options.chrome, console);
  }
  const TraceOrder order = options.by_error ? TraceOrder::error : TraceOrder::time;
  sort_by(order, summary);
  print_result(options.form == Form::json ? to_text(to_json(summary), 1) + "\n" : to_text(summary, order));
  return 0;
}

}  // namespace motley::app
