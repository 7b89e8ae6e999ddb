// SPDX-License-Identifier: Apache-2.0
#include "balance/choose_tiles.h"

#include <optional>

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

// The tiling into the number of pieces that gains most.
std::optional<PlanData> best_tiling(const PlanData& data, int tensor, Hop TensorPlan::*hop, const Profile& profile) {
  std::optional<PlanData> best;
  for (int tiles : kTileCounts) {
    PlanData trial = data;
    Hop& tiled = at(trial.tensors, tensor).*hop;
    tiled.schedule = {};  // a tile is sent directly
    if (!may_tile(trial, tensor, hop, tiles)) continue;
    tiled.tiles = tiles;
    count_bytes(trial);
    predict(trial, profile);
    if (fits(trial) && (!best || *trial.step_seconds < *best->step_seconds * (1 - kMinGain))) best = std::move(trial);
  }
  return best;
}

}  // namespace

void choose_tiles(PlanData& data, const Profile& profile) {
  if (profile.empty()) return;
  for (int t = static_cast<int>(data.tensors.size()) - 1; t >= 0; t--)
    for (const bool arrives : {true, false}) {
      const TensorPlan& plan = at(data.tensors, t);
      const auto hop = !arrives ? &TensorPlan::add : plan.fill.travels() ? &TensorPlan::fill : &TensorPlan::copy;
      if (!may_overlap(data, plan.*hop)) continue;
      auto tiled = best_tiling(data, t, hop, profile);
      if (tiled && *tiled->step_seconds < *data.step_seconds * (1 - kMinGain)) data = std::move(*tiled);
    }
}

}  // namespace motley
