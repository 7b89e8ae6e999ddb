// SPDX-License-Identifier: Apache-2.0
// `motley trace RUN`: where a run's predicted and measured steps differ.
#include <motley/error.h>

#include "app/console.h"
#include "app/run_directory.h"
#include "app/verbs.h"
#include "run/trace_summary.h"

namespace motley::app {

namespace {

namespace fs = std::filesystem;

TraceSummary summary_in(const fs::path& run) {
  const std::string name = run.string();
  if (!fs::exists(run))
    throw UserError(name + ": no such run directory; `motley train` prints its name (runs/<job>-<UTC time> without --run-dir)",
                    Exit::missing);
  if (!fs::is_directory(run)) throw UserError(name + " is a file; give the run's directory", Exit::data);
  if (!fs::exists(run / kRunFile) && !fs::exists(run / kResolvedJob))
    throw UserError(name + " is not a run directory: there is no " + kRunFile + " in it; give one that `motley train` wrote",
                    Exit::data);
  if (!fs::exists(run / kTraceFile))
    throw UserError(name + " holds no " + kTraceFile +
                        ": the run has not ended, has failed, or was made by an older motley; `motley train` writes the file when "
                        "it ends or is stopped",
                    Exit::missing);
  return load_trace_summary(run / kTraceFile);
}

}  // namespace

int trace(const Options& options) {
  const TraceSummary summary = summary_in(options.run_directory);
  print_result(options.form == Form::json ? to_text(to_json(summary), 1) + "\n" : to_text(summary));
  return 0;
}

}  // namespace motley::app
