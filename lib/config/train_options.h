// SPDX-License-Identifier: Apache-2.0
// A job's "train".
#pragma once
#include <motley/dtype.h>
#include <motley/step.h>

#include <optional>
#include <string>
#include <vector>

#include "base/json_fields.h"
#include "config/fine_tuning.h"
#include "train/checkpoint_options.h"
#include "train/course.h"
#include "train/event_file.h"

namespace motley {

// bf16: activations are stored in bf16, everything else is f32 (TrainingOptions::storage).
enum class Precision : std::uint8_t { f32, f64, bf16 };

struct TrainOptions {
  Precision precision = Precision::f32;
  DType dtype() const { return precision == Precision::f64 ? DType::f64 : DType::f32; }  // of the plan
  DType storage() const { return precision == Precision::bf16 ? DType::bf16 : DType::f32; }
  Index batch = 0;
  std::optional<Index> epochs{}, max_steps{};  // at least one is given; max_steps takes precedence
  std::uint64_t seed = 0;
  Optimizer optimizer{};
  RateSchedule schedule{};  // without its number of steps
  double clip_norm = 0;     // 0: gradients are not clipped
  Index accumulate = 1;     // micro-batches of a batch
  double average = 0;       // 0: weights are not averaged
  CheckpointOptions checkpoint{};
  Index evaluate_every_epochs = 0;  // 0: only at the end
  StepLog log = StepLog::none;
  WatchOptions watch{};
  InitialOptions initial{};
  std::vector<std::string> freeze{};     // patterns of parameters
  std::vector<ParameterGroup> groups{};  // of which the first that matches counts
};

// After a complaint: the valid part of the options.
std::optional<TrainOptions> read_train(Reader& r, const Json& j, VersionKey version);
Table<TrainOptions> train_table(VersionKey version);

// The options that a plan depends on: without the schedule, whose steps follow from the data.
TrainingOptions planned_options(const TrainOptions& train);
// The options of a training on so many samples.
TrainingOptions training_options(const TrainOptions& train, Index samples);
Extent extent_of(const TrainOptions& train, Index samples);
// A key of "train" that evaluations decide about, and what they need.
struct WatchingKey {
  std::string pointer{};
  Watched watch = Watched::test_loss;
};
std::vector<WatchingKey> watching_keys(const TrainOptions& train);
// That evaluations which are watched come too late for a run on so many samples.
std::vector<std::string> watch_notes(const TrainOptions& train, Index samples);
// The parts of a schedule that a run of so many steps does not reach.
std::vector<std::string> schedule_notes(const RateSchedule& schedule);

}  // namespace motley
