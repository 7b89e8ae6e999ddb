// SPDX-License-Identifier: Apache-2.0
#include "program/predict.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <utility>

#include "plan/moved_once.h"
#include "plan/schedules.h"
#include "program/compile.h"
#include "program/memory.h"
#include "program/steady.h"

namespace motley {

namespace {

std::atomic<std::int64_t> predictions{0};

constexpr double kNoise = 1.02;  // a smaller difference between fused and separate kernels is noise

bool pays(const Fusion& f, const Profile& profile, int rank) {
  double fused = 0, apart = 0;
  bool known = true;
  for (const auto& [list, sum] : {std::pair{&f.fused, &fused}, {&f.apart, &apart}})
    for (const KernelSpec& spec : *list) {
      if (list == &f.fused && !profile.supports(rank, spec)) return false;
      const Estimate estimate = profile.seconds(rank, spec);
      known = known && !estimate.is_guess();
      *sum += estimate.seconds;
    }
  return !known || fused <= apart * kNoise;
}

// With what the profile says stays apart, which the plan then says too.
Program compiled(PlanData& data, const CommonPlan& plan, int rank, const Profile& profile) {
  if (profile.empty()) return compile(plan, rank);
  for (;;) {
    Fusions fusions([&](const Fusion& f) { return pays(f, profile, rank); });
    Program out = compile(plan, rank, &fusions);
    if (fusions.apart().empty()) return out;
    data.apart.resize(data.predicted.size());
    auto& list = at(data.apart, rank);
    list.insert(list.end(), fusions.apart().begin(), fusions.apart().end());
    if (!fusions.contradicts()) return out;
  }
}

// Also sets what memory each rank needs. Without a profile no Program is needed for anything else: the list is empty.
std::vector<Program> compile_with_memory(PlanData& data, const Profile& profile) {
  const CommonPlan plan = data;
  std::vector<Program> out;
  for (std::size_t r = 0; r < data.predicted.size(); r++) {
    Program program = compiled(data, plan, static_cast<int>(r), profile);
    data.predicted[r].memory_bytes = memory_of(program, workspace_of(program, profile));
    if (!profile.empty()) out.push_back(std::move(program));
  }
  return out;
}

// Copies of parameters are kept from the first micro-batch to the last, if all ranks have the memory.
std::vector<Program> compile_in_memory(PlanData& data, const Profile& profile) {
  const bool repeated = std::exchange(data.repeats, false);
  std::vector<Program> out = compile_with_memory(data, profile);
  if (may_keep(data.passes) && !fits(data)) {
    data.repeats = true;
    out = compile_with_memory(data, profile);
  }
  if (data.repeats != repeated) count_bytes(data);
  return out;
}

}  // namespace

void predict(PlanData& data, const Profile& profile) {
  predictions++;
  const std::size_t ranks = data.predicted.size();
  std::vector<Program> programs = compile_in_memory(data, profile);
  if (profile.empty()) return;
  const Simulated times = simulate(steady(std::move(programs)), profile);
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

std::int64_t plans_predicted() {
  return predictions;
}

std::vector<ExposedWait> exposed_waits(const PlanData& data, const Profile& profile) {
  const std::vector<Program> programs = steady(compile_all(data));
  const Simulated times = simulate(programs, profile, {.timeline = true});
  std::map<std::pair<int, std::size_t>, double> longest;  // tensor and hop
  for (std::size_t r = 0; r < programs.size(); r++) {
    std::map<std::pair<int, std::size_t>, double> waits;
    for (std::size_t s = 0; s < programs[r].steps.size(); s++)
      if (const auto* wait = std::get_if<Wait>(&programs[r].steps[s].what)) {
        const Moved& of = at(programs[r].moved, wait->exchange);
        for (int t : of.tensors) waits[{t, of.hop}] += times.timeline[r][s].end - times.timeline[r][s].begin;
      }
    for (const auto& [hop, seconds] : waits) longest[hop] = std::max(longest[hop], seconds);
  }
  std::vector<ExposedWait> out;
  for (const auto& [hop, seconds] : longest) out.push_back({hop.first, hop.second, seconds});
  std::stable_sort(out.begin(), out.end(), [](const ExposedWait& a, const ExposedWait& b) { return a.seconds > b.seconds; });
  return out;
}

}  // namespace motley
