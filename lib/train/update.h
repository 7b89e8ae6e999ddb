// SPDX-License-Identifier: Apache-2.0
// What an update multiplies by, decided when its step runs.
#pragma once
#include <motley/batch.h>
#include <motley/executor.h>
#include <motley/step.h>
#include <motley/transport.h>

#include <optional>

namespace motley {

// One training step's inputs, micro-batch after micro-batch: reads of all of the batch become reads of one of them. `all` outlives
// it.
ReadBox micro_batch_of(const ReadBox& all, Index micro_batch, Index size);
// Of a tensor that is fed: the input whose values it has, and how they are read for this micro-batch.
const std::string& fed_from(const Passes& passes, const std::string& name);
ReadBox fed_by(const Passes& passes, const std::string& name, const ReadBox& all, Index micro_batch);
// Samples of a micro-batch.
Index micro_batch_size(const Passes& passes);

struct Update {  // of one step
  double learning_rate = 0;
  std::optional<double> gradient_norm{};  // of all gradients together; nothing where they are not clipped
  Ran ran{};                              // combining micro-batches and norms
};

// After the last run_backward(), for the step of this number (from 1): the learning rate by its schedule, and the factor that clips
// the gradients. Collective where they are clipped: the same on every rank.
Update prepare_update(Executor& executor, const Step& step, Transport& transport, Index number);

}  // namespace motley
