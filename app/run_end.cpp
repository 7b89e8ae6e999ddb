// SPDX-License-Identifier: Apache-2.0
#include "app/run_end.h"

#include <motley/error.h>

#include <optional>

#include "app/launch.h"
#include "app/resume.h"
#include "app/run_directory.h"
#include "base/json.h"
#include "train/run_files.h"
#include "weights/checkpoint.h"
#include "weights/weights_file.h"

namespace motley::app {

namespace {

namespace fs = std::filesystem;

// The status in run.json; empty: the file does not exist, or has none.
std::string status_in(const fs::path& file) {
  if (!fs::exists(file)) return "";
  Complaints complaints;
  const auto json = read_json(file.string(), read_file(file.string()), complaints, kByMotley);
  const Json* status = json ? json->find("status") : nullptr;
  const auto* word = status == nullptr ? nullptr : std::get_if<std::string>(&status->value);
  return word == nullptr ? "" : *word;
}

// Keeps the weights of the newest good checkpoint if there are no weights. Returns the step of these; nothing: there is no
// checkpoint.
std::optional<Index> keep_weights(const fs::path& directory) {
  for (const fs::path& file : {directory / kWeightsFile, directory / kAside / kWeightsFile})
    if (fs::exists(file)) return std::nullopt;
  std::vector<std::string> damaged;
  const auto checkpoint = last_good(directory, damaged);
  if (!checkpoint) return std::nullopt;
  const auto from = open_checkpoint(*checkpoint);
  const auto to = new_safetensors(directory / kWeightsFile, from->tensors(), metadata_of(from->classes()));
  for (std::size_t i = 0; i < from->tensors().size(); i++) to->add(from->read(static_cast<int>(i)));
  to->finish();
  return step_of(*checkpoint);
}

}  // namespace

bool finished(const fs::path& directory) {
  return status_in(directory / kRunFile) == "done";
}

bool has_stepped(const fs::path& directory) {
  return !fs::exists(directory / kAside) && last_line(directory / kMetrics).has_value();
}

bool has_ended(const fs::path& directory) {
  const std::string word = status_in(directory / kRunFile);
  return word == "done" || word == "stopped" || word == "failed";
}

void write_failed_run(const fs::path& directory, const Outcome& end, const Mesh& mesh) {
  if (has_ended(directory)) return;
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
