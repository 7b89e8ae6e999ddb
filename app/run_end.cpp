// SPDX-License-Identifier: Apache-2.0
#include "app/run_end.h"

#include <motley/error.h>

#include <fstream>

#include "app/run_directory.h"
#include "base/json.h"
#include "train/run_files.h"

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

std::optional<double> number_in(const Json& json, const std::string& key) {
  const Json* value = json.find(key);
  if (value == nullptr) return {};
  if (const auto* whole = std::get_if<std::int64_t>(&value->value)) return static_cast<double>(*whole);
  const auto* number = std::get_if<double>(&value->value);
  return number == nullptr ? std::nullopt : std::optional(*number);
}

// Of run.json; empty: it is not there, or has none.
std::string status_in(const fs::path& file) {
  if (!fs::exists(file)) return "";
  const auto json = parsed(file, read_file(file.string()));
  const Json* status = json ? json->find("status") : nullptr;
  const auto* word = status == nullptr ? nullptr : std::get_if<std::string>(&status->value);
  return word == nullptr ? "" : *word;
}

bool says_how_it_ended(const fs::path& file) {
  const std::string word = status_in(file);
  return word == "done" || word == "stopped" || word == "failed";
}

}  // namespace

bool finished(const fs::path& directory) {
  return status_in(directory / kRunFile) == "done";
}

bool has_stepped(const fs::path& directory) {
  return !fs::exists(directory / kAside) && last_metrics(directory).has_value();
}

bool has_begun(const fs::path& directory) {
  return says_how_it_ended(directory / kRunFile) || last_metrics(directory).has_value();
}

void write_failed_run(const fs::path& directory, const Outcome& end, const Mesh& mesh) {
  if (says_how_it_ended(directory / kRunFile)) return;
  TrainSummary run;
  run.status = end.code == static_cast<int>(Exit::stopped) ? "stopped" : "failed";
  run.code = end.code;
  run.rank = end.rank;
  run.reason = end.reason;
  run.ranks.resize(static_cast<std::size_t>(mesh.ranks()));
  if (const auto last = last_metrics(directory)) {
    run.steps = static_cast<Index>(number_in(*last, "step").value_or(0));
    run.train_loss = number_in(*last, "loss");
  }
  write_run_json(directory, run);
}

}  // namespace motley::app
