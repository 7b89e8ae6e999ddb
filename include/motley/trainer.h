// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs a plan's training steps on this rank.
#pragma once
#include <motley/data.h>
#include <motley/executor.h>
#include <motley/plan.h>
#include <motley/runtime.h>

#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace motley {
struct FileIn;
struct RunMemory;
class RunCheckpoints;

/// @addtogroup running
/// @{

/// What one rank did in a step.
struct RankStep {
  double seconds = 0;          ///< by the clock, the step's own messages included
  double busy_seconds = 0;     ///< computing
  double waiting_seconds = 0;  ///< for other ranks
  double feed_seconds = 0;     ///< reading the inputs, before the step: not part of its seconds
  Index bytes_received = 0;    ///< payload from other ranks
};

/// What all ranks did in a step; the same on every rank.
struct StepFigures {
  Index step = 0;                 ///< counted from 1; 0: none is known yet
  double seconds = 0;             ///< slowest rank
  Index bytes_received = 0;       ///< summed over ranks
  std::vector<RankStep> ranks{};  ///< by rank
};

/// The outcome of a step; the same on every rank except for the seconds.
struct StepReport {
  Index step = 0;                             ///< counted from 1
  double loss = 0;                            ///< of this step, before its update: the sum of all losses
  std::vector<double> losses{};               ///< each loss, in the order of training()
  double learning_rate = 0;                   ///< of the step's update
  std::optional<double> gradient_norm{};      ///< before clipping; empty if gradients are not clipped
  double measured_seconds = 0;                ///< of this rank, by the clock, without reading its inputs
  std::optional<double> predicted_seconds{};  ///< by the plan; empty without a profile
  StepFigures before{};                       ///< of the previous step: exchanged during this one
  bool save = false;                          ///< some rank called ask_to_save(): seen by all ranks in the same step
  bool saved = false;                         ///< all ranks have written what begin_save() began: finish_save() will not wait
  bool stop = false;         ///< some rank got a signal or called ask_to_stop(): seen by all ranks in the same step
  std::string line() const;  ///< "step 12  loss 0.4312  12.3 ms (predicted 11.9 ms)"
};

/// Where training is in its data: the next step's batch. A checkpoint keeps it besides the State.
struct DataPosition {
  Index epoch = 0;       ///< counted from 0
  Index batch = 0;       ///< in the epoch, counted from 0
  Index batch_size = 0;  ///< batch size in which `batch` counts; 0: not known
  Index samples = 0;     ///< of an epoch; 0: not known
};

/// Options of a Trainer. Every field has a default.
struct TrainerOptions {
  /// Of the initial weights and of dropout. Empty: 1, and after load() the checkpoint's.
  std::optional<std::uint64_t> seed{};
  /// Every so many steps all copies of parameters are compared with their owners' bits (0: never). Hashing reads each copied byte
  /// once or twice, fewer times than the kernels of one step: less than a step's time in a hundred steps, below 1 %.
  Index compare_copies_every = 100;
};

/// The loss, the norm of the gradients that are clipped, or (where copies are compared, and before parameters are saved) a
/// parameter is not finite. All ranks throw it before the update. Exit code 70.
class LossNotFinite : public Error {
 public:
  LossNotFinite(const std::string& text, int rank) : Error(Exit::internal, text), rank_(rank) {}  ///< found first on that rank
  int rank() const { return rank_; }  ///< the first rank that had a bad value

 private:
  int rank_;
};

/// A rank's copies of these parameters differ in bits from their owners' values: memory or messages are damaged, or there is a bug.
/// All ranks throw it before the update. Exit code 70.
class CopiesDiffer : public Error {
 public:
  /// Found first on that rank, in these parameters.
  CopiesDiffer(const std::string& text, int rank, std::vector<std::string> tensors)
      : Error(Exit::internal, text), rank_(rank), tensors_(std::move(tensors)) {}
  int rank() const { return rank_; }                                    ///< the first rank whose copy differed
  const std::vector<std::string>& tensors() const { return tensors_; }  ///< names of the parameters

 private:
  int rank_;
  std::vector<std::string> tensors_;
};

/// One rank's training: its parameters, its memory, its steps.
class Trainer {
 public:
  /// Collective: the ranks compare the plan's hash, then run rank 0's plan. UserError: some rank has a plan of another step, mesh,
  /// rules or options (what was chosen may differ), another Step::scalars() or other TrainerOptions. DeviceError: out of memory.
  Trainer(Runtime& rt, const Plan& plan, const TrainerOptions& options = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  /// Collective: one training step on these inputs. LossNotFinite: all ranks throw before the update, naming step and first bad
  /// tensor. CopiesDiffer: likewise, every compare_copies_every steps. Stopped, on all ranks: the previous step's report said
  /// `stop`. On all ranks before the update: UserError, an input that on some rank is missing, fed twice or not one of the step's;
  /// Error, what a rank's feed threw.
  StepReport step(std::initializer_list<Feed> feeds);
  StepReport step(const std::vector<Feed>& feeds);                     ///< the same, from a list made at run time
  StepReport step_named(const std::map<std::string, ReadBox>& feeds);  ///< the same, by the inputs' names
  /// Looks for parameters that are not finite, then runs the forward half on the last step's batch, which fills all copies, and
  /// compares them. Collective. Throws LossNotFinite, CopiesDiffer.
  void compare_copies();
  /// What all ranks did in the last step that ended; waits for these figures. Before the first step: step is 0, and there are no
  /// ranks. Collective.
  const StepFigures& figures();
  /// Collective: writes parameters, optimizer slots, the number of steps and the position as a checkpoint: a directory that all
  /// ranks see. Between steps. An existing checkpoint is replaced. UserError, on all ranks: the position is none that load() takes;
  /// it cannot be written, or what exists there is not a checkpoint (74). LossNotFinite, on all ranks, with nothing written: a
  /// parameter is not finite.
  void save(const std::filesystem::path& checkpoint, const DataPosition& position = {});
  /// Collective: save() in two halves. begin_save() copies what this rank owns (into as much host memory, which is kept for the
  /// next time), and a thread writes the copy while steps continue: on a core that no rank has, else on the rank's own at low
  /// priority. The checkpoint is complete once finish_save() has returned; StepReport::saved says when finish_save() will not wait.
  /// save() and begin_save() finish an unfinished save first. Errors of writing are thrown by finish_save() or save().
  void begin_save(const std::filesystem::path& checkpoint, const DataPosition& position = {});
  void finish_save();  ///< Collective. Returns at once if none was begun.
  /// Collective: continues from where save() was called, on any mesh, cuts and number of ranks; under the same plan with the same
  /// bits, unless TrainerOptions::seed gives another seed. Between steps. UserError, on all ranks, before anything is overwritten:
  /// 66 it is not there; 65 it is damaged, or of another network or optimizer (all differences at once). With a checkpoint of
  /// weights alone (`motley convert`) training begins: slots stay as they are.
  DataPosition load(const std::filesystem::path& checkpoint);
  Index steps() const;   ///< steps done, including those before a load()
  bool refused() const;  ///< in the last step all ranks threw before its update: the State is that of the previous step
  /// The learning rate of the steps from now on, in place of the schedule's; empty: the schedule's again. Every rank sets the same
  /// between the same steps: step() throws UserError, on all ranks before the update, where they differ. Kept by save(). UserError:
  /// not a finite number of at least 0.
  void set_learning_rate(std::optional<double> rate);
  /// For a schedule `plateau`: what an evaluation of the current parameters gives (RateSchedule::watch); rank 0's counts, once per
  /// step. What is not finite is no gain. Kept by save(). Collective. UserError: another schedule.
  /// @return whether the learning rate falls
  bool evaluated(double value);
  void ask_to_save();              ///< Requests a save: the next step's report has `save` on all ranks.
  void ask_to_stop();              ///< Says that this rank cannot continue: the next step's report has `stop` on all ranks.
  Executor& executor();            ///< for reading and writing tensors
  State& state();                  ///< this rank's parameters and slots, by name; to be written between steps
  const Program& program() const;  ///< what this rank runs
  const StepTrace& trace() const;  ///< of this rank's last steps

 private:
  friend class RunCheckpoints;
  void begin_save(const FileIn& checkpoint, const DataPosition& position);  // whose directory all ranks have opened
  RunMemory& memory();                                                      // of the evaluations so far; the same on every rank
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// @}
}  // namespace motley
