// SPDX-License-Identifier: Apache-2.0
// The checkpoints of a run: at which steps they are written, and how many are kept.
#pragma once
#include <motley/runtime.h>
#include <motley/trainer.h>

#include <functional>
#include <string>
#include <vector>

#include "base/open_directory.h"
#include "train/checkpoint_options.h"
#include "weights/memory.h"

namespace motley {

class RunCheckpoints {
 public:
  // position: the position in the data after so many steps. warn: about a checkpoint that could not be written, on rank 0; may be
  // empty.
  RunCheckpoints(Runtime& rt, Trainer& trainer, const OpenDirectory& run, const CheckpointOptions& options,
                 std::function<DataPosition(Index step)> position, std::function<void(const std::string& line)> warn);

  // The run begins, or continues, after this step. saved: nothing to save yet.
  void begin_at(Index step, bool saved);
  bool is_time_over() const;  // whether the next one is due by the clock
  bool is_saved(Index step) const { return saved_ == step; }
  bool is_begun() const { return begun_ >= 0; }                             // one is being written while training continues
  Index failed() const { return failed_; }                                  // number that could not be written
  bool lacks(Index step) const { return lost_ == step && saved_ != step; }  // it could not be written
  void training_ends() { ends_ = true; }                                    // a warning then does not say that training goes on
  // Checkpoints after this step, which belong to another course of the run.
  std::vector<std::string> newer(Index step) const;
  // Removes these, and of the others all but the newest and the best, unless they hold files that are not a checkpoint's; `also`
  // goes too (-1: none). This rank alone.
  void keep_newest(Index step, Index also = -1) const;

  // Collective. If a checkpoint cannot be written (74) there is a warning, and the earlier ones stay as they are.
  void begin(Index step);  // written while training continues; at most once per step
  void finish();           // completes the checkpoint that was begun
  void write(Index step);  // at once
  // The parameters after this step are the best so far: their checkpoint is kept until better ones are saved. Written while
  // training continues if it is not there; of parameters that are gone there is none.
  void keep_best(Index step);
  RunMemory& memory() { return trainer_.memory(); }
  const RunMemory& memory() const { return trainer_.memory(); }
  // Collective. The same, not in the background; errors are thrown.
  void save(Index step);

 private:
  template <class Work>
  void warned(Index step, Work&& work);
  void start(Index step);
  void complete();
  void set_best(Index step, bool only_as_best);

  Runtime& rt_;
  Trainer& trainer_;
  const OpenDirectory& run_;
  const CheckpointOptions& options_;
  std::function<DataPosition(Index step)> position_;
  std::function<void(const std::string& line)> warn_;
  Index saved_ = 0, tried_ = 0, failed_ = 0;  // saved, tried: the step of the last one
  Index begun_ = -1, lost_ = -1;              // step of the one being written, of one that could not be; -1: none
  bool begun_as_best_ = false;                // the one being written
  bool ends_ = false;
  double saved_at_ = 0;
};

}  // namespace motley
