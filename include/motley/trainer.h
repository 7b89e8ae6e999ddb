// SPDX-License-Identifier: Apache-2.0
// Runs a plan's training steps on this rank.
#pragma once
#include <motley/data.h>
#include <motley/executor.h>
#include <motley/plan.h>
#include <motley/runtime.h>

#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace motley {

struct Feed {
  Tensor tensor{};
  ReadBox data{};
};

struct RankStep {  // what one rank did in a step
  double seconds = 0, busy_seconds = 0, waiting_seconds = 0;  // seconds: by the clock, the step's own messages included
  double feed_seconds = 0;  // reading the inputs, before the step: not among its seconds
  Index bytes_received = 0;
};

struct StepReport {
  Index step = 0;  // counted from 1
  double loss = 0; // of this step, the same on every rank
  double measured_seconds = 0;  // slowest rank
  std::optional<double> predicted_seconds{};
  Index bytes_received = 0;     // summed over ranks
  std::vector<RankStep> ranks{};
  bool stop = false;            // some rank got a signal or called ask_to_stop(): all ranks know it in the same step
  std::string line() const;     // "step 12  loss 0.4312  12.3 ms (predicted 11.9 ms)"
};

struct TrainerOptions {
  std::uint64_t seed = 1;       // of the initial weights
  // Every so many steps all copies of parameters are compared with their owners' bits (0: never). Hashing reads each copied byte once or
  // twice, which the kernels of one step do more often: less than a step's time in a hundred steps, below 1 %.
  Index compare_copies_every = 100;
};

// All ranks throw it before the update. Exit code 70.
class LossNotFinite : public Error {
 public:
  LossNotFinite(const std::string& text, int rank) : Error(Exit::internal, text), rank_(rank) {}
  int rank() const { return rank_; }  // the first that had a bad value

 private:
  int rank_;
};

// A rank's copies of these parameters have other bits than their owners' values: memory or messages are damaged, or there is a bug. All ranks
// throw it before the update. Exit code 70.
class CopiesDiffer : public Error {
 public:
  CopiesDiffer(const std::string& text, int rank, std::vector<std::string> tensors) : Error(Exit::internal, text), rank_(rank), tensors_(std::move(tensors)) {}
  int rank() const { return rank_; }  // the first that had another copy
  const std::vector<std::string>& tensors() const { return tensors_; }

 private:
  int rank_;
  std::vector<std::string> tensors_;
};

class Trainer {
 public:
  // Collective: the ranks compare the plan's hash, rank 0's plan is what runs. UserError: they differ.
  Trainer(Runtime& rt, const Plan& plan, const TrainerOptions& options = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  // Collective. A loss that is not finite: all ranks throw before the update (exit 70), naming step and first bad tensor.
  // Every compare_copies_every steps CopiesDiffer (70), likewise.
  // Stopped (75), on all ranks: the report of the step before said `stop`.
  StepReport step(std::initializer_list<Feed> feeds);
  StepReport step(const std::vector<Feed>& feeds);
  StepReport step_named(const std::map<std::string, ReadBox>& feeds);  // by the inputs' names
  // Collective. Runs the forward half on the last step's batch, which fills all copies, and compares them. Throws CopiesDiffer.
  void compare_copies();
  void ask_to_stop();  // this rank cannot go on: the next step's report tells all ranks
  Executor& executor();
  const Program& program() const;
  const StepTrace& trace() const;  // of this rank's last steps

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace motley
