// SPDX-License-Identifier: Apache-2.0
#include "report/reported_run.h"

#include <fmt/format.h>
#include <motley/error.h>

#include <cmath>
#include <fstream>

#include "base/json.h"
#include "run/timeline_file.h"

namespace motley {

namespace {

namespace fs = std::filesystem;

std::optional<double> number_in(const Json& line, const char* key) {
  const Json* its = line.find(key);
  if (its == nullptr) return {};
  if (const auto* whole = std::get_if<std::int64_t>(&its->value)) return static_cast<double>(*whole);
  const auto* number = std::get_if<double>(&its->value);
  return number != nullptr && std::isfinite(*number) ? std::optional(*number) : std::nullopt;
}

std::optional<MetricsPoint> point_of(const std::string& file, const std::string& line) {
  Complaints complaints;
  const auto json = read_json(file, line, complaints, kByMotley);
  const auto step = json ? number_in(*json, "step") : std::nullopt;
  if (!step || *step < 0) return {};
  return MetricsPoint{static_cast<Index>(*step),   number_in(*json, "loss"),      number_in(*json, "learning_rate"),
                      number_in(*json, "seconds"), number_in(*json, "test_loss"), number_in(*json, "test_accuracy")};
}

void read_metrics(const fs::path& file, ReportedRun& out) {
  std::error_code ignored;
  if (!fs::exists(file, ignored)) {
    out.missing.emplace_back("There is no metrics.jsonl, so there are no curves.");
    return;
  }
  std::ifstream in(file, std::ios::binary);
  Index unread = 0;
  bool is_half = false;
  for (std::string line; std::getline(in, line);) {
    is_half = in.eof();  // its end is not there yet
    if (is_half || line.empty()) continue;
    if (const auto point = point_of(file.string(), line))
      out.metrics.push_back(*point);
    else
      unread++;
  }
  if (is_half) out.missing.push_back("The last line of metrics.jsonl is not complete: the run is writing it, or was killed.");
  if (unread > 0)
    out.missing.push_back(fmt::format("{} of metrics.jsonl cannot be read; the curves lack {}.",
                                      unread == 1 ? "1 line" : fmt::format("{} lines", unread), unread == 1 ? "it" : "them"));
  else if (out.metrics.empty())
    out.missing.push_back("No step is done yet: metrics.jsonl has no lines, so there are no curves.");
}

// A file that is there is read; an error in it is a sentence. False: it is there and cannot be read.
template <class Read>
bool read_file_of(const fs::path& file, ReportedRun& out, const std::string& if_missing, Read&& read) {
  std::error_code ignored;
  if (!fs::exists(file, ignored)) {
    out.missing.push_back(if_missing);
    return true;
  }
  try {
    read();
  } catch (const Error& e) {
    out.missing.push_back(file.filename().string() + " cannot be read: " + e.what());
    return false;
  }
  return true;
}

}  // namespace

ReportedRun read_run(const fs::path& run) {
  ReportedRun out;
  const fs::path file = run / "run.json";
  out.damaged_summary = !read_file_of(file, out, "There is no run.json: the run has not ended, or was killed with its launcher.",
                                      [&] { out.summary = load_run_json(file); });
  read_metrics(run / "metrics.jsonl", out);
  const fs::path timeline = run / kTimelineFile;
  const std::string when = out.summary && out.summary->status == "failed" ? "the run failed before it was written"
                           : out.summary                                  ? "the run was made by an older motley"
                                                                          : "a run writes it when it ends";
  read_file_of(timeline, out, fmt::format("There is no {}: {}. So no measured step is drawn.", kTimelineFile, when),
               [&] { out.timeline = load_timeline(timeline); });
  return out;
}

}  // namespace motley
