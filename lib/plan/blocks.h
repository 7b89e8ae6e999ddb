// SPDX-License-Identifier: Apache-2.0
// Kernels done block by block, so that an exchange goes on beside them. A tensor that arrives in blocks stays apart, one block per
// message; its readers compute with the own block first, then with each other one as it comes. A tensor that leaves in blocks is
// made one reader's block after the other, each sent while the next is computed, the own one last. Where a message takes longer than
// the work on the own block it goes in slabs of its first dim: kernels run on those that have come, or send those that are made,
// while the others travel. The order of blocks, and with it that of adds, is told by the plan alone.
#pragma once
#include <motley/profile.h>

#include <functional>
#include <optional>

#include "plan/plan_data.h"

namespace motley {

// What a rank holds of a tensor that arrives in blocks: its own tile (absent: an empty box), then what comes, in the messages'
// order.
std::vector<Box> arriving_blocks(const PlanData& data, int tensor, int rank);
// The boxes of a pass's result by reader and slab, where its tensor leaves in blocks; the rank's own whole and last.
std::vector<Box> leaving_blocks(const PlanData& data, int pass, int rank);
const std::vector<BoxMessage>& arriving_hop(const TensorPlan& plan);  // the one that travels: rest -> needs, or tiles -> rest

// A part of a rank's work in a pass. first, last: of those that write this box of the result; those in between are added.
struct WorkPart {
  std::vector<Range> box{};
  bool first = true, last = true;
};
// The whole work where nothing is in blocks; nothing where a block's edge lies along an index that a kernel cannot be cut at, or
// where a part would write a box of which those before it, or those behind it, write some but not all.
std::optional<std::vector<WorkPart>> parts_of(const PlanData& data, int pass, int rank);

// A copy or broadcast that needs no kernel: its source is read in place.
bool is_view(const Pass& pass);
bool may_arrive_in_blocks(const PlanData& data, int tensor, int slabs);
bool may_leave_in_blocks(const PlanData& data, int tensor, int slabs);
// Tensors of exchanges that go on while kernels run are taken apart where virtual time says that it pays. seconds: of the whole
// step.
void choose_blocks(PlanData& data, const Profile& profile);
inline constexpr int kSlabs[] = {1, 2, 4, 8};
// Every tensor that may be and whose messages are given slabs. False: there is none.
bool take_apart(PlanData& data, const std::function<int(const std::vector<BoxMessage>&)>& slabs_of);
// Some message goes where kernels may run beside it.
bool goes_far(const PlanData& data, const std::vector<BoxMessage>& messages);

}  // namespace motley
