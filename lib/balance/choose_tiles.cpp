// SPDX-License-Identifier: Apache-2.0
#include "balance/choose_tiles.h"

#include <algorithm>
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
// (bench/overlap). No wait that is shorter is worth tiles.
constexpr double kMinGain = 0.01;
constexpr int kMostTiled = 10;  // tensors for which tiles are tried

// Where memory is lacking: less is. Else: faster by the minimum gain, and memory suffices.
bool better(const PlanData& a, const PlanData& b) {
  if (!fits(b)) return lacking_of(a) < lacking_of(b);
  return fits(a) && a.step_seconds && *a.step_seconds < *b.step_seconds * (1 - kMinGain);
}

// The tiling into the best number of pieces.
std::optional<PlanData> best_tiling(const PlanData& data, int tensor, Hop TensorPlan::*hop, const Profile& profile) {
  std::optional<PlanData> best;
  for (int tiles : kTileCounts) {
    PlanData trial = data;
    trial.apart.clear();
    Hop& tiled = at(trial.tensors, tensor).*hop;
    tiled.schedule = {};  // a tile is sent directly
    tiled.tiles = tiles;
    if (!may_tile(trial, tensor, hop)) continue;
    count_bytes(trial);
    predict(trial, profile);
    if (best && !better(trial, *best)) break;  // then more pieces seldom are
    best = std::move(trial);
  }
  return best;
}

void tile_if_better(PlanData& data, int tensor, Hop TensorPlan::*hop, const Profile& profile) {
  auto tiled = best_tiling(data, tensor, hop, profile);
  if (tiled && better(*tiled, data)) data = std::move(*tiled);
}

}  // namespace

void choose_tiles(PlanData& data, const Profile& profile) {
  const auto overlaps = [&](const TensorPlan& t) {
    return std::any_of(kHops.begin(), kHops.end(), [&](auto hop) { return may_overlap(data, t.*hop); });
  };
  if (profile.empty() || std::none_of(data.tensors.begin(), data.tensors.end(), overlaps)) return;
  int left = kMostTiled;
  for (const ExposedWait& wait : exposed_waits(data, profile)) {
    if (left == 0 || wait.seconds < kMinGain * *data.step_seconds) return;
    const auto hop = at(kHops, wait.hop);
    if (!may_overlap(data, at(data.tensors, wait.tensor).*hop)) continue;
    tile_if_better(data, wait.tensor, hop, profile);
    left--;
  }
}

void tile_to_fit(PlanData& data, const Profile& profile) {
  for (int t = static_cast<int>(data.tensors.size()) - 1; t >= 0; t--)
    for (const bool arrives : {true, false}) {
      const TensorPlan& plan = at(data.tensors, t);
      const auto hop = !arrives ? &TensorPlan::add : plan.fill.travels() ? &TensorPlan::fill : &TensorPlan::copy;
      if (!fits(data) && (plan.*hop).travels()) tile_if_better(data, t, hop, profile);
    }
}

}  // namespace motley
