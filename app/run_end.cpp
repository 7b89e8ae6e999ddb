// SPDX-License-Identifier: Apache-2.0
#include "app/run_end.h"

#include <motley/error.h>

#include <optional>

#include "app/launch.h"
#include "app/resume.h"
#include "app/run_directory.h"
#include "base/files.h"
#include "base/json.h"
#include "train/run_files.h"
#include "weights/checkpoint.h"
#include "weights/weights_file.h"

namespace motley::app {

namespace {

// The status in run.json; empty: the file does not exist, or has none.
std::string status_in(const OpenDirectory& directory) {
  if (directory.kind(kRunFile) != OpenDirectory::Kind::file) return "";
  const FileIn file = directory / kRunFile;
  Complaints complaints;
  const auto json = read_json(file.path().string(), InputFile(file).text(), complaints, kByMotley);
  const Json* status = json ? json->find("status") : nullptr;
  const auto* word = status == nullptr ? nullptr : std::get_if<std::string>(&status->value);
  return word == nullptr ? "" : *word;
}

// Keeps the weights of the newest good checkpoint if there are no weights. Returns the step of these; nothing: there is no
// checkpoint.
std::optional<Index> keep_weights(const OpenDirectory& directory) {
  const auto aside = directory.find(kAside);
  if (directory.has(kWeightsFile) || (aside && aside->has(kWeightsFile))) return std::nullopt;
  std::vector<std::string> damaged;
  const auto checkpoint = last_good(directory.path(), damaged);
  if (!checkpoint) return std::nullopt;
  const auto from = open_checkpoint(*checkpoint);
  const auto to = new_safetensors(directory / kWeightsFile, from->tensors(), metadata_of(from->classes()));
  for (std::size_t i = 0; i < from->tensors().size(); i++) to->add(from->read(static_cast<int>(i)));
  to->finish();
  return step_of(*checkpoint);
}

}  // namespace

bool finished(const OpenDirectory& directory) {
  return status_in(directory) == "done";
}

bool has_stepped(const OpenDirectory& directory) {
  return !directory.has(kAside) && last_line(directory / kMetrics).has_value();
}

bool has_ended(const OpenDirectory& directory) {
  const std::string word = status_in(directory);
  return word == "done" || word == "stopped" || word == "failed";
}

void write_failed_run(const OpenDirectory& directory, const Outcome& end, const Mesh& mesh) {
  if (!directory.is_here() || has_ended(directory)) return;
  TrainSummary run;
  run.status = end.code == static_cast<int>(Exit::stopped) ? "stopped" : "failed";
  run.code = end.code;
  run.rank = end.rank;
  run.reason = end.reason;
  run.ranks.resize(static_cast<std::size_t>(mesh.ranks()));
  std::optional<Index> kept;
  if (run.status == "stopped" && signals_so_far() < 2) try {
      kept = keep_weights(directory);
    } catch (const Error& e) {
      run.reason += std::string("; weights could not be saved: ") + e.what();
    }
  if (const auto last = last_line(directory / kMetrics, kept)) {
    run.steps = last->step;
    run.train_loss = last->loss;
  }
  if (kept) run.steps = *kept;
  write_run_json(directory, run);
}

}  // namespace motley::app
