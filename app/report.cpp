// SPDX-License-Identifier: Apache-2.0
// `motley report RUN... -o FILE.html`: one page about runs.
#include "report/page.h"

#include <motley/error.h>

#include <algorithm>

#include "app/console.h"
#include "app/job_plan.h"
#include "app/outputs.h"
#include "app/run_directory.h"
#include "app/run_to_read.h"
#include "app/verbs.h"
#include "base/files.h"
#include "config/job.h"
#include "plan/plan_file.h"

namespace motley::app {

namespace {

namespace fs = std::filesystem;

// What the run had: the job as it was joined, its plan, the profile if it is still where the job says. What cannot be read is a
// sentence on the page.
void add_plan(const fs::path& run, ReportedRun& record) {
  try {
    const Job job = load_job((run / kResolvedJob).string());
    const Step step = step_of(job);
    const GivenPlan given = read_plan_for(job, step, run / kPlanFile);
    record.plan = plan_of_text(given.name, given.text, step, job.mesh);
    try {
      record.profile = profile_at_hand(job);
      if (record.profile.empty())
        record.missing.emplace_back(
            "There is no profile where the run's job says: seconds of single kernels are not predicted here.");
    } catch (const Error& e) {
      record.missing.push_back(std::string("The run's profile is not used, so seconds of single kernels are not predicted here: ") +
                               e.what());
    }
  } catch (const Error& e) {
    record.missing.push_back(std::string("The run's plan cannot be read, so it is not drawn: ") + e.what());
  }
}

// The directory's name; of directories with the same name the path.
std::string name_of(const fs::path& run, const std::vector<std::string>& all) {
  const auto name = [](const fs::path& path) { return plain_path(path).filename().string(); };
  const auto same = std::count_if(all.begin(), all.end(), [&](const std::string& other) { return name(other) == name(run); });
  return same > 1 ? run.string() : name(run);
}

}  // namespace

int report(const Options& options) {
  for (const std::string& run : options.files) require_run(run);
  std::vector<ReportedRun> runs;
  for (const std::string& run : options.files) {
    ReportedRun& record = runs.emplace_back(read_run(run));
    record.name = name_of(run, options.files);
    add_plan(run, record);
  }
  require_output("-o", options.output, OutputKind::page);
  Console console(options, Console::Voice::speaks);
  give_result(report_page(runs), options.output, console);
  return 0;
}

}  // namespace motley::app
