// SPDX-License-Identifier: Apache-2.0
// An optimizer's formulas as the kernels that update a parameter, element by element.
#pragma once
#include <string>
#include <vector>

#include "graph/passes.h"

namespace motley {

inline constexpr const char* kAverage = "average";  // the slot of a parameter's moving average

// The number of scalars that an update reads when it runs: learning rate, factor of the gradient, weight decay, what the optimizer
// computes from the step's number, and the kept part of an average.
Index update_scalars(const Optimizer& optimizer, bool averages);
inline constexpr Index kOwnScalars = 2;  // those that differ from one parameter to the next: learning rate and weight decay
struct OwnScalars {
  double rate_factor = 1, weight_decay = 0;
};
// decays: StepTensor::decays.
OwnScalars own_scalars(const UpdateScalars& scalars, const std::string& parameter, bool decays);
// The slots that are kept of each parameter.
std::vector<std::string> update_slots(const Passes& passes);

struct UpdateForm {
  // Scalars, gradient, slots, parameter -> slots, parameter. With a direction: scalars, gradient, the optimizer's slots -> the
  // optimizer's slots.
  Formula update{};
  Formula squared{};  // scalars, the optimizer's slots, parameter -> the square of its direction; no code: it has no direction
  Formula move{};     // scalars, ratio of the norms, slots, parameter -> the average if there is one, parameter
};
UpdateForm update_form(const Optimizer& optimizer, bool averages);

// All formulas of the updates of these optimizers, for a Compiled.
std::vector<Formula> formulas_of(const std::vector<Optimizer>& optimizers);

}  // namespace motley
