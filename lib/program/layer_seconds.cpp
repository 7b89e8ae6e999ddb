// SPDX-License-Identifier: Apache-2.0
#include "program/layer_seconds.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "base/at.h"
#include "graph/layers.h"
#include "program/compile.h"
#include "program/steady.h"

namespace motley {

namespace {

std::vector<int> layers_moved(const Layers& layers, const Moved& moved) {
  std::vector<int> out;
  for (int t : moved.tensors)
    if (const int layer = at(layers.of_tensor, t); layer >= 0) out.push_back(layer);
  return out;
}

using Kind = std::tuple<KernelOp, PassKind, DType>;
Kind kind_of(const KernelSpec& spec) {
  return {spec.op, spec.pass, spec.dtype};
}

// Flops per second of each device in its best measured kernel of each kind; of a modelled device those that no kernel exceeds.
class BestRates {
 public:
  explicit BestRates(const Profile& profile) : modelled_(profile.modelled) {
    for (const KernelPoint& p : profile.kernels()) {
      if (!p.supported || p.seconds.typical() <= 0) continue;
      double& best = best_[{p.device, kind_of(p.spec)}];
      best = std::max(best, flops(p.spec) / p.seconds.typical());
    }
    for (std::size_t r = 0; r < profile.devices.size(); r++) {  // points were timed while the other ranks of a host computed
      const auto same = [&](const DeviceFacts& other) { return other.host == profile.devices[r].host; };
      const bool alone = std::count_if(profile.devices.begin(), profile.devices.end(), same) == 1;
      paces_.push_back(alone ? 1 : std::min(1.0, profile.devices[r].alone_over_shared));
    }
  }
  double operator()(int device, const Kind& kind) const {
    const auto found = best_.find({device, kind});
    const auto r = static_cast<std::size_t>(device);
    if (const auto its = modelled_.find(device); its != modelled_.end()) return its->second->flops_per_second;
    return (found == best_.end() ? kUnknownRate : found->second) / (r < paces_.size() ? paces_[r] : 1);
  }

 private:
  const std::map<int, std::shared_ptr<const DeviceNumbers>>& modelled_;
  std::map<std::pair<int, Kind>, double> best_{};
  std::vector<double> paces_{};
};

}  // namespace

double LayerSeconds::exchange_seconds() const {
  return waiting.empty() ? 0 : *std::max_element(waiting.begin(), waiting.end());
}

double LayerSeconds::slowest() const {
  double most = 0;
  for (std::size_t r = 0; r < busy.size(); r++) most = std::max(most, busy[r] + waiting[r]);
  return most;
}

StepByLayer layer_seconds(const PlanData& data, const Profile& profile) {
  if (profile.empty()) return {};
  const Layers layers = layers_of(data.passes);
  const std::vector<Program> programs = steady(compile_all(data));
  const Simulated times = simulate(programs, profile, {.timeline = true});
  const std::vector<double> none(programs.size(), 0);
  std::vector<LayerSeconds> all;
  for (const std::string& name : layers.names) all.push_back({name, none, none});
  for (std::size_t r = 0; r < programs.size(); r++)
    for (std::size_t s = 0; s < programs[r].steps.size(); s++) {
      const double seconds = times.spent[r][s];
      if (const auto* run = std::get_if<RunKernel>(&programs[r].steps[s].what); run != nullptr && run->layer >= 0)
        at(all, run->layer).busy[r] += seconds;
      if (const auto* wait = std::get_if<Wait>(&programs[r].steps[s].what)) {
        const std::vector<int> moved = layers_moved(layers, at(programs[r].moved, wait->exchange));
        for (int layer : moved) at(all, layer).waiting[r] += seconds / static_cast<double>(moved.size());
      }
    }
  std::erase_if(all, [](const LayerSeconds& l) { return l.slowest() <= 0; });
  return {times.step_seconds, std::move(all)};
}

double least_step_seconds(const PlanData& data, const Profile& profile) {
  if (profile.empty()) return 0;
  std::map<Kind, double> work;  // flops of all ranks
  for (const Program& program : steady(compile_all(data)))
    for (std::size_t s = 0; s < program.steps.size(); s++)
      if (const auto* run = std::get_if<RunKernel>(&program.steps[s].what)) {
        const bool once = program.steps[s].once || static_cast<int>(s) >= program.combine_begin;
        work[kind_of(run->spec)] += flops(run->spec) * (once ? 1 : program.micro_batches);
      }
  const BestRates rates(profile);
  std::vector<double> speeds;  // steps per second of each rank, if it did all
  double all = 0;
  for (std::size_t r = 0; r < data.predicted.size(); r++) {
    double alone = 0;
    for (const auto& [kind, flops] : work) alone += flops / rates(static_cast<int>(r), kind);
    if (alone <= 0) return 0;
    all += speeds.emplace_back(1 / alone);
  }
  // With weights w that sum to 1: step >= sum_r w_r T_r >= sum over kinds of work * min_r (w_r / rate_r).
  double least = 0;
  for (const auto& [kind, flops] : work) {
    double dearest = HUGE_VAL;
    for (std::size_t r = 0; r < speeds.size(); r++) dearest = std::min(dearest, speeds[r] / all / rates(static_cast<int>(r), kind));
    least += flops * dearest;
  }
  return least;
}

}  // namespace motley
