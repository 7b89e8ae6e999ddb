// SPDX-License-Identifier: Apache-2.0
#include "app/run_end.h"

#include <motley/error.h>

#include <fstream>

#include "app/run_directory.h"
#include "base/json.h"

namespace motley::app {

namespace {

namespace fs = std::filesystem;

std::optional<Json> parsed(const fs::path& name, const std::string& text) {
  Complaints complaints;
  return read_json(name.string(), text, complaints);
}

std::optional<Json> last_metrics(const fs::path& directory) {
  std::ifstream in(directory / kMetrics);
  std::optional<Json> last;
  for (std::string line; std::getline(in, line);)
    if (auto json = parsed(directory / kMetrics, line)) last = std::move(json);
  return last;
}

Json value_of(const std::optional<Json>& json, const std::string& key) {
  const Json* value = json ? json->find(key) : nullptr;
  return value == nullptr ? Json() : Json(*value);
}

bool says_how_it_ended(const fs::path& file) {
  if (!fs::exists(file)) return false;
  const auto json = parsed(file, read_file(file.string()));
  const Json* status = json ? json->find("status") : nullptr;
  const auto* word = status == nullptr ? nullptr : std::get_if<std::string>(&status->value);
  return word != nullptr && (*word == "done" || *word == "stopped" || *word == "failed");
}

}  // namespace

bool has_begun(const fs::path& directory) {
  return says_how_it_ended(directory / kRunFile) || last_metrics(directory).has_value();
}

void write_failed_run(const fs::path& directory, const Outcome& end, const Mesh& mesh) {
  if (says_how_it_ended(directory / kRunFile)) return;
  const auto last = last_metrics(directory);
  Json run;
  run.set("status", end.code == static_cast<int>(Exit::stopped) ? "stopped" : "failed");
  run.set("code", end.code);
  run.set("rank", end.rank < 0 ? Json() : Json(end.rank));
  run.set("reason", end.reason);
  run.set("steps", last ? value_of(last, "step") : Json(0));
  run.set("train_loss", value_of(last, "loss"));
  for (const char* figure : {"seconds", "test_accuracy", "predicted_step_seconds", "measured_step_seconds", "bytes_predicted", "bytes_counted"})
    run.set(figure, Json());
  Json::Array ranks;
  for (int r = 0; r < mesh.ranks(); r++) {
    Json rank;
    rank.set("rank", r);
    rank.set("device", mesh.device(r).name);
    for (const char* figure : {"predicted_step_seconds", "measured_step_seconds", "bytes_predicted", "bytes_counted", "busy_seconds",
                               "waiting_seconds", "memory_bytes"})
      rank.set(figure, Json());
    ranks.push_back(std::move(rank));
  }
  run.set("ranks", std::move(ranks));
  run.set("copies_differ", Json());
  write_file((directory / kRunFile).string(), to_text(run, 2) + "\n");
}

}  // namespace motley::app
