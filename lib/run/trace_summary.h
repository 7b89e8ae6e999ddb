// SPDX-License-Identifier: Apache-2.0
// Where predicted and measured times differ, by name: the part of its trace that a run keeps and `motley trace RUN` prints.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/open_directory.h"
#include "run/run_trace.h"

namespace motley {

constexpr const char* kStepTimesFile = "step_times.json";  // in the run directory
constexpr const char* kOldStepTimesFile = "trace.json";    // its name in older runs

struct Quartiles {  // seconds per training step, over the measured steps
  double q25 = 0, median = 0, q75 = 0;
};
Quartiles quartiles(std::vector<double> values);  // linear between neighbours; 0 for no values

// The order of a table's rows, the largest first: measured median, or the size of its difference from the prediction (without one
// the median).
enum class TraceOrder : std::uint8_t { time, error };

struct TraceRow {
  std::string name{}, group{};  // a group's row has its name in both
  Quartiles measured{};
  std::optional<double> predicted{};
  std::optional<double> difference() const;  // measured median less predicted
  double weight(TraceOrder order) const;     // seconds
};

struct RankTraceSummary {
  std::string device{};
  std::optional<double> disturbed{};  // share of the time in which other processes had its cores
  Quartiles step{};                   // the timed part: without inputs and figures
  std::optional<double> predicted_step{};
  std::vector<TraceRow> rows{};  // one per pass and exchange (its posts and waits added), and the time between events
  std::vector<TraceRow> groups{};
};

struct TraceSummary {
  Index first_step = 0, last_step = 0, steps = 0;
  Quartiles step{};  // the slowest rank's
  std::optional<double> predicted_step{};
  std::vector<RankTraceSummary> ranks{};
  std::vector<std::string> notes{};
  std::optional<double> gap() const;        // measured median less predicted
  std::optional<double> disturbed() const;  // the largest of all ranks
};

// Over the steps from that one on (earlier ones are not timed). Rows by time.
TraceSummary summarise(const RunTrace& trace, Index first_step);

// Of every rank's rows and groups.
void sort_by(TraceOrder order, TraceSummary& summary);

// Includes differences, and the share of each in the step's gap; rows in the summary's order.
Json to_json(const TraceSummary& summary);
// One table of all ranks' rows, and one of their groups.
std::string to_text(const TraceSummary& summary, TraceOrder order = TraceOrder::time);
void save(const TraceSummary& summary, const FileIn& file);          // UserError (74)
TraceSummary load_trace_summary(const std::filesystem::path& file);  // UserError: 66 missing, 65 damaged

}  // namespace motley
