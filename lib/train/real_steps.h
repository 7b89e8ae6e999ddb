// SPDX-License-Identifier: Apache-2.0
// Real steps of several plans, timed in turn.
#pragma once
#include <motley/plan.h>
#include <motley/runtime.h>

#include <functional>
#include <string>
#include <vector>

namespace motley {

// Of one plan, by round: the median of its steps' seconds on the slowest rank. Empty: it does not fit.
using StepRounds = std::vector<double>;

// Every round runs each plan in turn, with parameters and inputs of its own; one is in memory at a time. The first plan is the
// reference: a plan for which three rounds beside those before it do not fit into `seconds` is left out, as if it did not fit.
// All empty: not even two plans do. Collective; the same on every rank. say: rank 0's progress.
std::vector<StepRounds> real_steps(Runtime& rt, const std::vector<Plan>& plans, double seconds,
                                   const std::function<void(const std::string&)>& say);

}  // namespace motley
