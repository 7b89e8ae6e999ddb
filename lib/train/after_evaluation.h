// SPDX-License-Identifier: Apache-2.0
// What follows from a run's evaluations: the learning rate falls, the checkpoint is the best, the run ends. Decided from rank 0's
// figures, so the same on every rank; what it is decided from is kept in checkpoints.
#pragma once
#include <motley/runtime.h>
#include <motley/step.h>
#include <motley/trainer.h>

#include <functional>
#include <optional>
#include <string>

#include "train/checkpoint_options.h"
#include "train/run_checkpoints.h"
#include "train/run_files.h"

namespace motley {

class AfterEvaluation {
 public:
  // say: on rank 0; may be empty.
  AfterEvaluation(Runtime& rt, Trainer& trainer, RunCheckpoints& checkpoints, const UpdateScalars& scalars,
                  const WatchOptions& options, std::function<void(const std::string& line)> say);
  bool any() const { return options_.any() || falls_; }
  // Collective, after Trainer::load(): leaves out what the checkpoint remembers of other values than are watched now.
  void resumed(const OpenDirectory& run);
  bool lacks(Index step) const;  // the evaluation of this step is not remembered
  // Collective. at_end: of an evaluation that only the end of training brings: the learning rate stays as it is.
  enum class When : std::uint8_t { in_training, at_end };
  void add(Index step, const StepFacts& test, When when = When::in_training);
  // Collective: keeps the checkpoint of the last evaluation if that was the best.
  void keep_best();
  bool ends() const;  // there were as many evaluations without a gain as end the run
  // If so: "test_loss has not gained in 5 evaluations since step 30 (0.43)".
  std::string why_it_ends() const;
  std::optional<BestFigures> best() const;

 private:
  void say(const std::string& line) const;
  const Gains& gains() const { return checkpoints_.memory().gains; }
  Runtime& rt_;
  Trainer& trainer_;
  RunCheckpoints& checkpoints_;
  const UpdateScalars& scalars_;
  const WatchOptions options_;
  const Watched watch_;
  const bool falls_;                 // the schedule is plateau
  std::optional<Index> best_due_{};  // step of the best evaluation whose checkpoint is still to be kept
  std::function<void(const std::string& line)> say_;
};

}  // namespace motley
