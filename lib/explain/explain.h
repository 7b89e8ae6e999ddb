// SPDX-License-Identifier: Apache-2.0
// A plan in words and drawings: who holds, owns and reads which box, what moves, along which index each pass is cut.
#pragma once
#include <motley/plan.h>
#include <motley/profile.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "plan/plan_data.h"

namespace motley {

// UserError (64) with a hint: no tensor of the step has this name.
int find_tensor(const Passes& passes, const std::string& name);

// The whole plan, or (with a name) one tensor. At most 100 columns for few ranks and short names. An empty profile: no seconds. A
// summary of the whole plan joins passes, tensors and messages of which the same is true; full lists each.
std::string explain_text(const Plan& plan, const Profile& profile, const std::string& tensor,
                         PlanDetail detail = PlanDetail::summary);
Json explain_json(const Plan& plan, const Profile& profile, const std::string& tensor);
// One rect of class "own" per rank and box that the rank holds of a tensor.
std::string explain_svg(const Plan& plan, const Profile& profile, const std::string& tensor);
std::string plan_svg(const Plan& plan, const Profile& profile);  // the whole plan

// The text of a plan file: Plan::json() of training, with that of the evaluation beside it (none: null) and what the plans were
// made for (plan/plan_file.h), and the seconds of each layer by the profile.
std::string plan_file_text(const Plan& training, const Plan* evaluation, const std::string& made_for, const Profile& profile,
                           PlanDetail detail);

// Messages of one pair of ranks in one move of a tensor; the move's step is "add", "copy" or "fill". The boxes are those of one
// micro-batch.
struct Movement {
  std::string tensor{}, step{}, schedule{};
  Collective kind = Collective::none;
  int from = 0, to = 0;
  std::vector<Box> boxes{};
  Index bytes = 0;     // per step
  double seconds = 0;  // per step, of one message in each micro-batch that sends it; 0 without a profile
  bool tiled = false;  // kernels run on some of its tiles while others are sent
};
std::vector<Movement> movements_of(const Plan& plan, const Profile& profile, int tensor);

// "filters1 cut on `all` (partial sums)".
enum class Names : std::uint8_t { dims, roles };  // roles: "filters" of any layer whose own dim no rule names
std::string pick_words(const Plan& plan, int pass, Names names = Names::dims);
// "batch 0..8, filters 4..6"; dims that the box contains completely are left out, "whole" if it contains everything.
std::string box_words(const Shape& shape, const Box& box);

}  // namespace motley
