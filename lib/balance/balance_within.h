// SPDX-License-Identifier: Apache-2.0
// Plans of steps that share the devices' memory.
#pragma once
#include <motley/error.h>
#include <motley/plan.h>

#include <optional>
#include <vector>

namespace motley {

// Device::memory_bytes of each rank.
std::vector<Index> limits_of(const Mesh& mesh);
// As balance(), with other limits than the mesh's (Device::memory_bytes): bytes per rank; 0: no limit.
Plan balance_within(const std::vector<Index>& memory, const Step& step, const Mesh& mesh, const LayoutRules& rules,
                    const Profile& profile, const BalanceOptions& options = {});

// Without limits: of a run for comparison, which is not the one that the limits are for.
inline Plan balance_unlimited(const Step& step, const Mesh& mesh, const LayoutRules& rules, const Profile& profile,
                              const BalanceOptions& options = {}) {
  return balance_within(std::vector<Index>(static_cast<std::size_t>(mesh.ranks()), 0), step, mesh, rules, profile, options);
}

// The plan of training, and of the evaluation that runs on its parameters between its steps and keeps memory of its own.
struct TrainPlans {
  Plan training;
  Plan evaluation;
};
// evaluation: an inference step of the same model. If the mesh's limits do not suffice for both plans, the evaluation gets other
// parts; if it fits in no parts, training gets parts that leave it what it needs. UserError (69): no such parts. Pure.
TrainPlans balance_both(const Step& training, const Step& evaluation, const Mesh& mesh, const LayoutRules& rules,
                        const Profile& profile, const BalanceOptions& options = {});

// The error of a rank whose memory does not suffice for both.
UserError no_room_for_both(const Mesh& mesh, int rank, Index training, Index evaluation);

}  // namespace motley
