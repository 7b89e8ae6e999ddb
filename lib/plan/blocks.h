// SPDX-License-Identifier: Apache-2.0
// Kernels done block by block, so that an exchange goes on beside them. A tensor that arrives in blocks stays apart, one block per
// message; its readers compute with the own block first, then with each other one as it comes. A tensor that leaves in blocks is
// made one reader's block after the other, each sent while the next is computed, the own one last. The order of blocks, and with it
// that of adds, is told by the plan alone.
#pragma once
#include <motley/profile.h>

#include <functional>
#include <optional>

#include "plan/plan_data.h"

namespace motley {

// What a rank holds of a tensor that arrives in blocks: its own tile (absent: an empty box), then what comes, in the messages'
// order.
std::vector<Box> arriving_blocks(const PlanData& data, int tensor, int rank);
// The boxes of a pass's result by reader, where its tensor leaves in blocks.
std::vector<Box> leaving_blocks(const PlanData& data, int pass, int rank);
const std::vector<BoxMessage>& arriving_hop(const TensorPlan& plan);  // the one that travels: rest -> needs, or tiles -> rest

// A part of a rank's work in a pass. first, last: of those that write this box of the result; those in between are added.
struct WorkPart {
  std::vector<Range> box{};
  bool first = true, last = true;
};
// The whole work where nothing is in blocks; nothing where a block's edge lies along an index that a kernel cannot be cut at, or
// where parts would write boxes that are neither the same nor apart.
std::optional<std::vector<WorkPart>> parts_of(const PlanData& data, int pass, int rank);

// A copy or broadcast that needs no kernel: its source is read in place.
bool is_view(const Pass& pass);
bool may_arrive_in_blocks(const PlanData& data, int tensor);
bool may_leave_in_blocks(const PlanData& data, int tensor);
// Tensors of exchanges that go on while kernels run are taken apart where virtual time says that it pays. seconds: of the whole
// step.
void choose_blocks(PlanData& data, const Profile& profile);
// Every tensor that may be and whose messages are named. False: there is none.
bool take_apart(PlanData& data, const std::function<bool(const std::vector<BoxMessage>&)>& which);
// Some message goes where kernels may run beside it.
bool goes_far(const PlanData& data, const std::vector<BoxMessage>& messages);

}  // namespace motley
