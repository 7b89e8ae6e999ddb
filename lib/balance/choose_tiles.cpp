// SPDX-License-Identifier: Apache-2.0
#include "balance/choose_tiles.h"

#include <optional>

#include "balance/memory_limits.h"
#include "base/at.h"
#include "plan/schedules.h"
#include "plan/tiles.h"
#include "program/predict.h"

namespace motley {

namespace {

// Minimum gain, as a part of the step's seconds, of tiling one tensor or of more pieces of its messages. Where the ranks' cores
// move the bytes, virtual time sees only a part of the cost: three tensors that were to gain 1.6 % together lost 6 % by TCP
// (bench/overlap).
constexpr double kMinGain = 0.01;

// Where memory is lacking: less is. Else: faster by the minimum gain, and memory suffices.
bool better(const PlanData& a, const PlanData& b) {
  if (!fits(b)) return lacking_of(a) < lacking_of(b);
  return fits(a) && a.step_seconds && *a.step_seconds < *b.step_seconds * (1 - kMinGain);
}

// The tiling into the best number of pieces.
std::optional<PlanData> best_tiling(const PlanData& data, int tensor, Hop TensorPlan::*hop, const Profile& profile) {
  std::optional<PlanData> best;
  for (int tiles : kTileCounts) {
    if (best && !fits(data) && !better(*best, data)) break;  // more pieces seldom need less memory
    PlanData trial = data;
    Hop& tiled = at(trial.tensors, tensor).*hop;
    tiled.schedule = {};  // a tile is sent directly
    tiled.tiles = tiles;
    if (!may_tile(trial, tensor, hop)) continue;
    count_bytes(trial);
    predict(trial, profile);
    if (!best || better(trial, *best)) best = std::move(trial);
  }
  return best;
}

template <class F>
void tile_each(PlanData& data, const Profile& profile, F wanted) {
  for (int t = static_cast<int>(data.tensors.size()) - 1; t >= 0; t--)
    for (const bool arrives : {true, false}) {
      const TensorPlan& plan = at(data.tensors, t);
      const auto hop = !arrives ? &TensorPlan::add : plan.fill.travels() ? &TensorPlan::fill : &TensorPlan::copy;
      if (!wanted(plan.*hop)) continue;
      auto tiled = best_tiling(data, t, hop, profile);
      if (tiled && better(*tiled, data)) data = std::move(*tiled);
    }
}

}  // namespace

void choose_tiles(PlanData& data, const Profile& profile) {
  if (!profile.empty()) tile_each(data, profile, [&](const Hop& hop) { return may_overlap(data, hop); });
}

void tile_to_fit(PlanData& data, const Profile& profile) {
  tile_each(data, profile, [&](const Hop& hop) { return !fits(data) && hop.travels(); });
}

}  // namespace motley
