// SPDX-License-Identifier: Apache-2.0
// What an update needs to know of all gradients together.
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

struct Update {                           // of one step
  double factor = 1;                      // of the gradients: clips them
  std::optional<double> gradient_norm{};  // of all gradients together; empty if they are not clipped
  Ran ran{};                              // time for combining micro-batches and norms
};

// After the last run_backward(): adds up the micro-batches' gradients and finds the factor that clips them. Collective if they are
// clipped: the same on every rank.
Update prepare_update(Executor& executor, const Step& step, Transport& transport);

}  // namespace motley
