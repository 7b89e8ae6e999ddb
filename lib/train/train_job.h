// SPDX-License-Identifier: Apache-2.0
// A whole training run: steps, evaluation, and the files it leaves.
#pragma once
#include <motley/data.h>
#include <motley/plan.h>
#include <motley/predictor.h>
#include <motley/runtime.h>

#include <filesystem>
#include <functional>
#include <string>

#include "train/checkpoint_options.h"
#include "train/feed_names.h"
#include "train/run_files.h"

namespace motley {

struct TrainPlanInput {
  const Plan* plan = nullptr;        // a training step
  const Plan* evaluation = nullptr;  // an inference step whose output is the logits, on the same State; none: nothing is evaluated
  EvaluateOptions evaluate{};        // what it computes
  const Profile* profile = nullptr;  // what the plan was made from: the trace's simulated side; none or empty: there is none
  Datasets data{};                   // test: may be null, then nothing is evaluated
  std::function<std::shared_ptr<const Dataset>(Index epoch)> in_epoch{};  // what an epoch (from 0) trains on; empty: data.train
  FeedNames names{};
  Index epochs = 0, max_steps = 0;  // one of them; max_steps wins
  std::uint64_t seed = 1;           // of the initial weights and the order of samples
  CheckpointOptions checkpoint{};
  Index evaluate_every_epochs = 0;            // 0: at the end alone
  std::filesystem::path resume{};             // a checkpoint that training goes on from; empty: from the start
  std::optional<TrainSummary> done_before{};  // resumed: how that run had ended, where it was done; the same on every rank
  std::function<void()> began{};              // called on rank 0 before the first file of an earlier run is replaced for good
  std::filesystem::path run_directory{};
  std::filesystem::path dump{};                             // empty: none
  std::filesystem::path trace{};                            // Chrome trace of the last steps; empty: none
  std::function<void(const std::string& line)> progress{};  // called on rank 0, once per step
  std::function<void(const std::string& line)> say{};       // on rank 0: a line that is not overwritten by the next
  std::function<void(const std::string& line)> warn{};      // on rank 0: likewise, of what went wrong and does not end the run
};

// Collective. Rank 0 writes plan.json, metrics.jsonl, trace.json, weights.safetensors and run.json into the run directory (which
// exists), the dump and the trace; all ranks write checkpoints there, one of them when the run is asked to stop. Returns the same
// on every rank. Throws on all ranks, after run.json says so: Stopped when a rank was asked to stop; Error(io) when a file cannot
// be written, but for a checkpoint while it trains, which is warned of; LossNotFinite; CopiesDiffer. A rank that fails alone throws
// alone: Runtime ends the others.
TrainSummary train_job(Runtime& rt, const TrainPlanInput& input);

// What run.json says of a run that ended so: status, code, reason, and what the error knows besides.
void note_failure(TrainSummary& summary, const Error& e);

}  // namespace motley
