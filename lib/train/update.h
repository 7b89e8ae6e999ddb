// SPDX-License-Identifier: Apache-2.0
// The factors of an update, determined when its step runs.
#pragma once
#include <motley/batch.h>
#include <motley/executor.h>
#include <motley/step.h>
#include <motley/transport.h>

#include <optional>

namespace motley {

// One micro-batch of a training step's inputs: a reader of the whole batch becomes a reader of this micro-batch. `all` must outlive
// it.
ReadBox micro_batch_of(const ReadBox& all, Index micro_batch, Index size);
// The input from which a fed tensor has its values.
const std::string& fed_from(const Passes& passes, const std::string& name);
ReadBox fed_by(const Passes& passes, const std::string& name, const ReadBox& all, Index micro_batch);
// Samples of a micro-batch.
Index micro_batch_size(const Passes& passes);

struct Update {  // of one step
  double learning_rate = 0;
  std::optional<double> gradient_norm{};  // of all gradients together; empty if they are not clipped
  Ran ran{};                              // time for combining micro-batches and norms
};

// After the last run_backward(), for the step of this number (from 1): the learning rate by its schedule, and the factor that clips
// the gradients. Collective if they are clipped: the same on every rank.
Update prepare_update(Executor& executor, const Step& step, Transport& transport, Index number);

}  // namespace motley
