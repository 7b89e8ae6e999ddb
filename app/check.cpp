// SPDX-License-Identifier: Apache-2.0
// motley check: everything that is wrong with files. motley schema: what files may contain. motley model: a model file of a
// published network.
#include "config/check.h"

#include <fmt/format.h>

#include "app/console.h"
#include "app/job_plan.h"
#include "app/outputs.h"
#include "app/verbs.h"
#include "config/job.h"
#include "config/schema.h"
#include "config/zoo.h"

namespace motley::app {

int check(const Options& options) {
  const Data data = options.decode ? Data::decoded : Data::with_weights;
  if (!options.sets.empty()) {  // --set changes jobs
    std::string report;
    for (const std::string& file : options.files) {
      const Job job = load_job(file, options.sets, data);
      report += file + ": job, with --set: nothing wrong\n";
      check_memory(job);
      for (const std::string& line : job_lines(job)) report += line + "\n";
    }
    print_result(report);
    return 0;
  }
  const CheckResult result = check_files(options.files, check_memory, data);
  print_error(result.complaints);
  print_result(result.report);
  return static_cast<int>(result.code);
}

int schema(const Options& options) {
  print_result(to_text(schema_of_file(options.kind), 2) + "\n");
  return 0;
}

int model(const Options& options) {
  const std::string text = to_text(zoo_model(usual_choice(options.kind)), 1) + "\n";
  if (options.output.empty())
    print_result(text);
  else {
    require_output("-o", options.output, OutputKind::model);
    write_file(options.output.string(), text);
  }
  return 0;
}

}  // namespace motley::app
