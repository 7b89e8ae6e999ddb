// SPDX-License-Identifier: Apache-2.0
// Parts for all rules that leave them open, the complete plan that follows, and its predicted seconds.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "balance/dim_tables.h"
#include "balance/variables.h"
#include "plan/cost.h"
#include "plan/plan_data.h"

namespace motley {

struct Proposal {
  Assignment parts{};
  std::vector<std::string> why{};  // per variable
};

struct Trial {
  Proposal of{};
  PlanData plan{};
  double lacking = kNever;  // memory: lacking_of(plan); infinite: statistics are not defined
  double seconds = kNever;  // infinite where memory is lacking
};

// Keeps references to its arguments.
class PartTrials {
 public:
  PartTrials(const Passes& passes, const Mesh& mesh, const LayoutRules& rules, const Profile& profile, DType dtype,
             const std::vector<Variable>& variables, const Cost& cost)
      : passes_(passes), mesh_(mesh), rules_(rules), profile_(profile), dtype_(dtype), variables_(variables), cost_(cost) {}
  bool is_free(std::size_t i) const { return variables_[i].by == CutBy::profile; }

  // With the picks of the improving sweep; where memory is lacking for these, with picks that move the least, or with those of even
  // parts, if less is lacking for them; then tiled. LayoutError: lists that do not tile.
  Trial improved(Proposal of) const;
  Trial overlapped(Trial one) const;  // the same plan, while messages between hosts or devices are in flight kernels run

  bool limits = true;  // of memory; false: as if no device had one
  bool tiles = true;   // improved() tiles what lacks memory

 private:
  Trial trial(Proposal of, PlanData plan) const;
  const Passes& passes_;
  const Mesh& mesh_;
  const LayoutRules& rules_;
  const Profile& profile_;
  DType dtype_;
  const std::vector<Variable>& variables_;
  const Cost& cost_;                                                // of all trials
  mutable std::optional<Cost> light_{};                             // whose cheapest picks move the least
  mutable std::optional<std::pair<LayoutRules, PlanData>> even_{};  // even parts, and their plan
};

// True: the trial is faster than the best by this share, or lacks less memory than the best, and becomes the best.
bool take(Trial trial, Trial& best, double gain);

}  // namespace motley
