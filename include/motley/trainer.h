// SPDX-License-Identifier: Apache-2.0
// Runs a plan's training steps on this rank.
#pragma once
#include <motley/data.h>
#include <motley/executor.h>
#include <motley/plan.h>
#include <motley/runtime.h>

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace motley {

struct Feed {
  Tensor tensor{};
  ReadBox data{};
};

struct StepReport {
  Index step = 0;  // counted from 1
  double loss = 0; // of this step, the same on every rank
  double measured_seconds = 0;  // slowest rank
  std::optional<double> predicted_seconds{};
  Index bytes_received = 0;     // summed over ranks
  std::string line() const;     // "step 12  loss 0.4312  12.3 ms (predicted 11.9 ms)"
};

struct TrainerOptions {
  std::uint64_t seed = 1;       // of the initial weights
};

class Trainer {
 public:
  // Collective: the ranks compare the plan's hash, rank 0's plan is what runs. UserError: they differ.
  Trainer(Runtime& rt, const Plan& plan, const TrainerOptions& options = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  // Collective. A loss that is not finite: all ranks throw before the update (exit 70), naming step and first bad tensor.
  StepReport step(std::initializer_list<Feed> feeds);
  StepReport step(const std::vector<Feed>& feeds);
  Executor& executor();
  const Program& program() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace motley
