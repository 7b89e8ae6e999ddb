// SPDX-License-Identifier: Apache-2.0
// A whole training run: steps, evaluation, and the files that it writes.
#pragma once
#include <motley/data.h>
#include <motley/plan.h>
#include <motley/predictor.h>
#include <motley/runtime.h>
#include <motley/weights.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "train/checkpoint_options.h"
#include "train/feed_names.h"
#include "train/run_files.h"

namespace motley {

struct TrainPlanInput {
  const Plan* plan = nullptr;        // of a training step
  const Plan* evaluation = nullptr;  // an inference step whose output is the logits, on the same State; none: nothing is evaluated
  EvaluateOptions evaluate{};        // what the evaluation computes
  std::string plan_file{};           // the text of the run's plan.json; empty: the training plan's
  const Profile* profile = nullptr;  // the plan's profile, for the trace's simulated side; none or empty: no such side
  std::vector<RankFacts> facts{};    // of every rank, for run.json; empty: not known
  Datasets data{};                   // test: may be null, then nothing is evaluated
  std::function<std::shared_ptr<const Dataset>(Index epoch)> in_epoch{};  // what an epoch (from 0) trains on; empty: data.train
  FeedNames names{};
  Index epochs = 0, max_steps = 0;  // one of them is given; max_steps takes precedence
  std::uint64_t seed = 1;           // of the initial weights and the order of samples
  CheckpointOptions checkpoint{};
  StepLog log = StepLog::none;                // what each step's figures are written to besides metrics.jsonl
  Index evaluate_every_epochs = 0;            // 0: only at the end
  WatchOptions watch{};                       // these, and a schedule `plateau`, need evaluations
  std::filesystem::path initial{};            // weights to begin with, read before the first step; empty: they are drawn
  LoadWeightsOptions fresh{};                 // which of them are drawn nevertheless
  std::filesystem::path resume{};             // a checkpoint from which training continues; empty: from the start
  std::optional<TrainSummary> done_before{};  // resumed: the earlier run's summary, if it was done; the same on every rank
  // Called on rank 0 before the first file of an earlier run is replaced, with the checkpoints (their names) of its course that
  // ends now.
  std::function<void(const std::vector<std::string>& ended)> began{};
  OpenDirectory run_directory{};
  std::filesystem::path dump{};   // folder for dumped tensors; empty: none
  std::filesystem::path trace{};  // Chrome trace of the last steps; empty: none
  // Called on rank 0, once per step, and for the last step again after the evaluation at the end.
  std::function<void(const std::string& line)> progress{};
  // On rank 0, again and again in an evaluation that takes longer than about a second: a line about its progress.
  std::function<void(const std::string& line)> evaluating{};
  std::function<void(const std::string& line)> say{};   // on rank 0: a line that the next one does not overwrite
  std::function<void(const std::string& line)> warn{};  // on rank 0: likewise, for a problem that does not end the run
};

// Collective. Rank 0 writes plan.json, metrics.jsonl, step_times.json, timeline.json, weights.safetensors and run.json into the run
// directory (which exists), the dump and the trace; all ranks write checkpoints there, one of them when the run is asked to stop.
// Returns the same on every rank. Throws on all ranks, after run.json says so: Stopped when a rank was asked to stop; Error(io)
// when a file cannot be written, except for a checkpoint during training, which only gives a warning; UserError: evaluations are
// watched that there are none of; LossNotFinite; CopiesDiffer. A rank that fails alone throws alone: Runtime ends the others.
TrainSummary train_job(Runtime& rt, const TrainPlanInput& input);

// How the classes of weights differ from those of data; empty: they do not, or are not known.
std::string renamed_classes(const std::vector<std::string>& of_weights, const std::vector<std::string>& of_data);

// Sets what run.json says of a run that ended with this error: status, code, reason, and further details of the error.
void note_failure(TrainSummary& summary, const Error& e);

}  // namespace motley
