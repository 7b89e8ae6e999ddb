// SPDX-License-Identifier: Apache-2.0
// Training and its evaluation, in the memory of the same devices.
#include <algorithm>
#include <string>
#include <utility>

#include "balance/balance_within.h"
#include "balance/choose_layout.h"
#include "base/at.h"
#include "plan/plan_data.h"
#include "program/compile.h"
#include "program/memory.h"
#include "program/too_large.h"

namespace motley {

namespace {

// Plans of training, each of which leaves the evaluation more of the limit than the one before: at last a rank without a part of
// it.
constexpr int kMostRounds = 4;
constexpr Index kIdleBytes = 4096;  // enough for a rank that has no part

class JointBalance {
 public:
  JointBalance(const Step& training, const Step& evaluation, const Mesh& mesh, const LayoutRules& rules, const Profile& profile,
               const BalanceOptions& options)
      : training_(training), evaluation_(evaluation), mesh_(mesh), rules_(rules), profile_(profile), options_(options) {}

  TrainPlans plans() const {
    std::vector<Index> memory = limits_of(mesh_);  // for training
    Plan trains = balance_within(memory, training_, mesh_, rules_, profile_, options_);
    for (int round = 1;; round++) {
      const Plan evaluates = evaluation_within(std::vector<Index>(ranks(), 0), trains);
      const std::vector<Index> beside = bytes_beside(evaluates);
      const auto too_little = without_room(trains, beside);
      if (!too_little) return {std::move(trains), evaluates};
      if (auto other = evaluation_beside(trains, evaluates, beside)) return {std::move(trains), *std::move(other)};
      if (round == kMostRounds) throw *too_little;
      for (std::size_t r = 0; r < ranks(); r++)
        if (limit(r) > 0)
          memory[r] = std::min(memory[r], std::max({limit(r) - beside[r], limit(r) / kMostRounds * (kMostRounds - round - 1),
                                                    std::min(kIdleBytes, limit(r))}));
      try {
        trains = balance_within(memory, training_, mesh_, rules_, profile_, options_);
      } catch (const UserError& e) {
        if (e.code() != Exit::device) throw;
        throw *too_little;
      }
    }
  }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(mesh_.ranks()); }
  Index limit(std::size_t r) const { return mesh_.devices()[r].memory_bytes; }

  Plan evaluation_within(const std::vector<Index>& memory, const Plan& trains) const {
    LayoutRules rules = rules_within(evaluation_, with_open_parts(trains.data().rules, rules_));
    rules.homes = trains.homes();
    return balance_within(memory, evaluation_, mesh_, rules, profile_, {.dtype = options_.dtype, .baselines = false});
  }

  // The evaluation in what training leaves, where parameters are already there; nothing: it does not fit.
  std::optional<Plan> evaluation_beside(const Plan& trains, const Plan& evaluates, const std::vector<Index>& beside) const {
    std::vector<Index> memory;
    for (std::size_t r = 0; r < ranks(); r++) {
      if (limit(r) == 0) {
        memory.push_back(0);
        continue;
      }
      const Index parameters = at(evaluates.data().predicted, r).memory_bytes - beside[r];
      memory.push_back(std::max<Index>(1, limit(r) - at(trains.data().predicted, r).memory_bytes + parameters));
    }
    try {
      return evaluation_within(memory, trains);
    } catch (const UserError& e) {
      if (e.code() != Exit::device) throw;
      return std::nullopt;
    }
  }

  // Bytes that the evaluation takes on each rank with a limit, where training has its parameters; elsewhere 0.
  std::vector<Index> bytes_beside(const Plan& evaluates) const {
    std::vector<Index> out(ranks(), 0);
    const CommonPlan plan = evaluates.data();
    for (std::size_t r = 0; r < ranks(); r++) {
      if (limit(r) == 0) continue;
      const Program program = compile(plan, static_cast<int>(r));
      out[r] = memory_of(program, workspace_of(program, profile_), Parameters::there);
    }
    return out;
  }

  std::optional<UserError> without_room(const Plan& trains, const std::vector<Index>& beside) const {
    for (std::size_t r = 0; r < ranks(); r++) {
      const Index training = at(trains.data().predicted, r).memory_bytes;
      if (limit(r) == 0 || training + beside[r] <= limit(r)) continue;
      return no_room_for_both(mesh_, static_cast<int>(r), training, beside[r]);
    }
    return std::nullopt;
  }

  const Step &training_, &evaluation_;
  const Mesh& mesh_;
  const LayoutRules& rules_;
  const Profile& profile_;
  const BalanceOptions& options_;
};

}  // namespace

TrainPlans balance_both(const Step& training, const Step& evaluation, const Mesh& mesh, const LayoutRules& rules,
                        const Profile& profile, const BalanceOptions& options) {
  return JointBalance(training, evaluation, mesh, rules, profile, options).plans();
}

UserError no_room_for_both(const Mesh& mesh, int rank, Index training, Index evaluation) {
  const Device& device = mesh.device(rank);
  return UserError("rank " + std::to_string(rank) + " (" + device.name + ") needs " + std::to_string(training) +
                       " bytes for a training step and " + std::to_string(evaluation) +
                       " for the evaluation beside it, the mesh gives it " + std::to_string(device.memory_bytes) + "; " + kLess,
                   Exit::device);
}

}  // namespace motley
