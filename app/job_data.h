// SPDX-License-Identifier: Apache-2.0
// A job's samples on a rank.
#pragma once
#include <motley/data.h>
#include <motley/runtime.h>

#include "app/rank_verbs.h"
#include "config/model.h"

namespace motley::app {

// Collective: the data as the files have it, without its damaged pictures where the job skips these.
Datasets raw_data_of(Runtime& rt, const Task& task, const Model& model);
// The data as the network reads it, except for the random changes in training.
Datasets prepared(Datasets raw, const Job& job);
// Of `raw`: the samples of an epoch (from 0) of training.
std::shared_ptr<const Dataset> in_epoch(const Datasets& raw, const Job& job, Index epoch);

}  // namespace motley::app
