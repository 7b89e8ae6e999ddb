// SPDX-License-Identifier: Apache-2.0
#include "program/predict.h"

#include <algorithm>

#include "program/compile.h"

namespace motley {

void predict(PlanData& data, const Profile& profile) {
  const std::size_t ranks = data.predicted.size();
  std::vector<Program> programs;
  for (std::size_t r = 0; r < ranks; r++) programs.push_back(compile(data, static_cast<int>(r)));
  for (std::size_t r = 0; r < ranks; r++) data.predicted[r].memory_bytes = programs[r].arena_bytes + programs[r].state_bytes;
  if (profile.empty()) return;
  const Simulated times = simulate(programs, profile);
  data.step_seconds = data.step_q25 = data.step_q75 = times.step_seconds;
  for (const DeviceFacts& d : profile.devices) {
    data.step_q25 = std::min(*data.step_q25, times.step_seconds * d.fast);
    data.step_q75 = std::max(*data.step_q75, times.step_seconds * d.slow);
  }
  for (std::size_t r = 0; r < ranks; r++) data.predicted[r].seconds = times.busy_seconds[r];
}

PlanData predicted(PlanData data, const Profile& profile) {
  predict(data, profile);
  return data;
}

}  // namespace motley
