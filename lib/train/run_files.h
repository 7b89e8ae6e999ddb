// SPDX-License-Identifier: Apache-2.0
// The files that a run leaves in its directory: metrics.jsonl while it runs, run.json at its end (INTERFACE section 3).
#pragma once
#include <motley/dims.h>
#include <motley/error.h>
#include <motley/trainer.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/open_directory.h"
#include "run/rank_facts.h"
#include "train/event_file.h"

namespace motley {

// What a step's line contains in addition to the report.
struct StepFacts {
  double samples_per_second = 0;                       // by the clock, including reading the samples
  std::optional<double> test_accuracy{}, test_loss{};  // of an evaluation after the step
};

struct MetricsLine {
  Index step = 0;
  Index end = 0;  // bytes of the file up to the end of the line
  bool has_test = false;
  std::optional<double> loss{};
};
// The last complete line with a step of at most `step`, if given. Lines are parsed from the end on: there may be millions.
std::optional<MetricsLine> last_line(const FileIn& metrics, std::optional<Index> step = {});

// One line per step, each passed to the system as a whole before the next step.
class MetricsFile {
 public:
  // Of an existing file the lines up to this step are kept. log: what each line says is written there too. UserError(io): also
  // what exists is not a file.
  explicit MetricsFile(const FileIn& file, Index keep_steps = 0, StepLog log = StepLog::none);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;
  // UserError(io): the file then ends with its last complete line; or it was removed, or its directory renamed or removed (seen
  // twice a second).
  void add(const StepReport& step, Index epoch, const StepFacts& facts = {});
  // Whether the last line is this step's and has no figures of an evaluation.
  bool lacks_test(Index step) const { return step == last_ && !has_test_; }
  std::optional<double> loss_of(Index step) const { return step == last_ ? loss_ : std::nullopt; }
  // Adds these to the last line. UserError(io): it is as it was.
  void add_test(const StepFacts& facts);
  void close();  // UserError(io): data that the system had accepted did not reach the disk

 private:
  [[noreturn]] void fail(const char* call) const;
  void append(const std::string& text);
  FileIn file_;
  int fd_ = -1;
  double seen_ = 0;        // when the directory was last seen to be there, seconds
  Index last_ = 0;         // step of the last line; 0: there is none
  bool has_test_ = false;  // of that line
  std::optional<double> loss_{};
  std::optional<EventFile> events_{};
};

struct RankFigures {  // seconds and bytes per step
  std::optional<double> predicted_step_seconds{}, measured_step_seconds{}, busy_seconds{}, waiting_seconds{};
  std::optional<double> feed_seconds{};  // reading the inputs, before the step: not part of measured_step_seconds
  std::optional<double> disturbed{};     // share of the measured steps' time in which other processes used the rank's cores
  std::optional<Index> bytes_predicted{}, bytes_counted{};
  std::optional<Index> memory_bytes{};  // used, including kernels' workspaces
  RankFacts machine{};                  // what it runs on; empty: not known
};

struct BestFigures {
  Watched watch = Watched::test_loss;
  double value = 0;
  Index step = 0;
  Index without_gain = 0;       // evaluations since then
  std::optional<Index> kept{};  // step of the best checkpoint in the run directory
};

struct TrainSummary {
  std::string status = "done";  // done, stopped, failed
  int code = 0;                 // if failed: exit code, rank (-1: not of one rank) and reason
  int rank = -1;
  std::string reason{};
  std::string motley{}, started{};  // version; UTC time of this session's first step, as utc_now(); empty: not known
  std::string ended{};              // UTC time when run.json was written; only from load_run_json()
  Index steps = 0;
  Index checkpoints_failed = 0;        // number that could not be written: training continued
  Index steps_before = 0;              // of earlier sessions, from whose checkpoint this one went on
  std::optional<double> seconds{};     // from the start of this session's first step
  std::optional<double> train_loss{};  // of the last step
  std::optional<double> test_accuracy{}, test_loss{};
  std::optional<double> test_batch_seconds{}, predicted_test_batch_seconds{};  // of the evaluation, per batch
  std::optional<double> predicted_step_seconds{};
  std::optional<double> measured_step_seconds{};            // median after warm-up of the slowest rank
  std::optional<Index> bytes_predicted{}, bytes_counted{};  // per step, summed over ranks
  std::vector<RankFigures> ranks{};
  std::optional<BestFigures> best{};  // evaluation; nothing: none is watched, or none has a finite value
  bool stopped_early = false;         // by evaluations without a gain
  std::vector<std::string> copies_differ{};
  std::vector<std::string> classes{};       // names, by number; empty: not known
  std::optional<double> disturbed() const;  // that of the most disturbed rank
};

// Written whole or not at all. UserError(io). Also for a caller that outlives the ranks (the launcher) and knows why they ended.
void write_run_json(const OpenDirectory& directory, const TrainSummary& summary);
TrainSummary load_run_json(const std::filesystem::path& file);  // UserError with every complaint

}  // namespace motley
