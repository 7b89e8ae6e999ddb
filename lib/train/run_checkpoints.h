// SPDX-License-Identifier: Apache-2.0
// The checkpoints of a run: which steps get one, and how many stay.
#pragma once
#include <motley/runtime.h>
#include <motley/trainer.h>

#include <filesystem>
#include <functional>

#include "train/checkpoint_options.h"

namespace motley {

class RunCheckpoints {
 public:
  // position: in the data, after so many steps. warn: of a checkpoint that could not be written, on rank 0; may be empty.
  RunCheckpoints(Runtime& rt, Trainer& trainer, const std::filesystem::path& run_directory, const CheckpointOptions& options,
                 std::function<DataPosition(Index step)> position, std::function<void(const std::string& line)> warn);

  void begin_at(Index step);  // the run begins, or goes on, after it: nothing is to be saved yet
  bool is_time_over() const;  // for the next one, by the clock
  bool is_saved(Index step) const { return saved_ == step; }
  Index failed() const { return failed_; }  // to be written
  // Those after this step are of another course of the run; of the others the newest ones stay. This rank alone.
  void keep_newest(Index step) const;

  // Collective. Where a checkpoint cannot be written (74) there is a warning, and those before it stay as they are.
  void begin(Index step);  // it is written while training goes on; once per step at most
  void finish();           // the one that was begun
  void write(Index step);  // at once
  // Collective. The same at once; its errors are thrown.
  void save(Index step);

 private:
  template <class Work>
  void warned(Index step, Work&& work);
  void start(Index step);
  void complete();

  Runtime& rt_;
  Trainer& trainer_;
  const std::filesystem::path& run_directory_;
  const CheckpointOptions& options_;
  std::function<DataPosition(Index step)> position_;
  std::function<void(const std::string& line)> warn_;
  Index saved_ = 0, tried_ = 0, failed_ = 0;  // saved, tried: the step of the last one
  Index begun_ = -1;                          // of the one that is being written; -1: none is
  double saved_at_ = 0;
};

}  // namespace motley
