// SPDX-License-Identifier: Apache-2.0
#include "app/job_data.h"

#include "run/agreed.h"
#include "train/skip_damaged.h"

namespace motley::app {

Datasets raw_data_of(Runtime& rt, const Task& task, const Model& model) {
  const Job& job = task.job;
  const SampleKind expected = samples_of(job.model, model);
  std::vector<std::string> without;
  if (job.data.kind == DataKind::folder && job.data.damaged == Damaged::skip) {
    FolderData all;
    agreed(rt.transport(), [&] { all = open_folder(job.data.path, expected, {job.data.resize}); });
    const auto run_of = [](const std::filesystem::path& checkpoint) { return checkpoint.parent_path().parent_path(); };
    const std::filesystem::path &weights = task.options.weights, &from = task.options.from;
    without = damaged_pictures(rt, all,
                               {.keep_in = task.directory,
                                .known = {weights, weights.parent_path(), run_of(weights), run_of(from)},
                                .progress = [&](const std::string& line) { task.console.progress(line); },
                                .say = [&](const std::string& line) { task.console.say(LogLevel::warning, line); }});
    task.console.progress_done();
  }
  return load_data(job.data, expected, 8 * job.train.batch, job.train.seed, without);
}

Datasets prepared(Datasets raw, const Job& job) {
  for (std::shared_ptr<const Dataset>* part : {&raw.train, &raw.test, &raw.validation})
    if (*part) *part = normalized(*part, job.data.normalize);
  return raw;
}

std::shared_ptr<const Dataset> in_epoch(const Datasets& raw, const Job& job, Index epoch) {
  Augment augment = job.data.augment;
  augment.ignored = job.model.loss.ignore_index;
  return normalized(augmented(raw.train, augment, job.train.seed, epoch), job.data.normalize);
}

}  // namespace motley::app
