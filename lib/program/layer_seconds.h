// SPDX-License-Identifier: Apache-2.0
// Where the seconds of a predicted step go: computed on demand from a plan and its profile, as predict() predicts it.
#pragma once
#include <motley/profile.h>

#include <string>
#include <vector>

#include "plan/plan_data.h"

namespace motley {

// busy: of its kernels (forward, gradients, update, packing and adding of its tensors; of a kernel that computes parts of two
// layers, the layer that reads the other's result, or a contraction's that applies an activation). waiting: until what other ranks
// send of its tensors is there: its result, its parameters, their gradients. Of a message with tensors of several layers, equal
// parts.
struct LayerSeconds {
  std::string layer{};
  std::vector<double> busy{}, waiting{};  // per rank and step, all micro-batches
  double exchange_seconds() const;        // of the rank that waits longest
  double slowest() const;                 // busy and waiting, of the rank that takes longest
};

struct StepByLayer {
  double step_seconds = 0;
  std::vector<LayerSeconds> layers{};  // in the order of their first passes, without those that take no time
};
// Of the profile that the plan was made with: the sum of a rank's busy seconds is its PredictedRank::seconds. Without a profile
// there are no layers.
StepByLayer layer_seconds(const PlanData& data, const Profile& profile);

// A bound that no correct prediction is below: the step if each kernel ran at the best rate that a device reached in any measured
// kernel of that op, pass and type, the devices shared the work without loss, and nothing moved. Where devices are better at
// different ops, a rank's weight is its speed in the complete step (any weights give a bound). 0 without a profile.
double least_step_seconds(const PlanData& data, const Profile& profile);

}  // namespace motley
