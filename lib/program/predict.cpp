// SPDX-License-Identifier: Apache-2.0
#include "program/predict.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "plan/schedules.h"
#include "program/compile.h"
#include "program/memory.h"

namespace motley {

namespace {

std::vector<Program> compile_all(PlanData& data, const Profile& profile) {
  const CommonPlan plan = data;
  std::vector<Program> out;
  for (std::size_t r = 0; r < data.predicted.size(); r++) {
    out.push_back(compile(plan, static_cast<int>(r)));
    data.predicted[r].memory_bytes = memory_of(out[r], workspace_of(out[r], profile));
  }
  return out;
}

// Copies of parameters are kept from the first micro-batch to the last, if all ranks have the memory.
std::vector<Program> compile_in_memory(PlanData& data, const Profile& profile) {
  const bool repeated = std::exchange(data.repeats, false);
  std::vector<Program> out = compile_all(data, profile);
  if (data.passes.accumulate > 1 && !fits(data)) {
    data.repeats = true;
    out = compile_all(data, profile);
  }
  if (data.repeats != repeated) count_bytes(data);
  return out;
}

}  // namespace

void predict(PlanData& data, const Profile& profile) {
  const std::size_t ranks = data.predicted.size();
  const std::vector<Program> programs = compile_in_memory(data, profile);
  if (profile.empty()) return;
  const Simulated times = simulate(programs, profile);
  data.step_seconds = times.step_seconds;
  double fast = profile.devices.empty() ? 1 : HUGE_VAL, slow = 1;  // profiled seconds are those of a quiet machine
  for (const DeviceFacts& d : profile.devices) {
    fast = std::min(fast, d.fast);
    slow = std::max(slow, d.slow);
  }
  data.step_q25 = times.step_seconds * fast;
  data.step_q75 = times.step_seconds * slow;
  for (std::size_t r = 0; r < ranks; r++) {
    data.predicted[r].seconds = times.busy_seconds[r];
    data.predicted[r].estimated_seconds = times.estimated_seconds[r];
  }
}

PlanData predicted(PlanData data, const Profile& profile) {
  predict(data, profile);
  return data;
}

}  // namespace motley
