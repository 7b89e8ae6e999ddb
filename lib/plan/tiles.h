// SPDX-License-Identifier: Apache-2.0
// Kernels run tile by tile, so that an exchange overlaps with them. A tensor that arrives tiled stays in separate buffers, one per
// message; its readers compute with the rank's own tile first, then with each other one as it arrives. A tensor that leaves tiled
// is made one reader's tile after the other, each sent while the next is computed, the rank's own last. Where a message takes
// longer than the work on the own tile it goes in several pieces of its first dim: kernels run on those that have arrived, or the
// next is computed, while the others travel. The order of tiles, and with it that of adds, follows from the plan alone.
#pragma once
#include <functional>
#include <optional>

#include "plan/plan_data.h"

namespace motley {

// What a rank holds of a tensor that arrives tiled: its own tile (absent: an empty box), then what arrives, in the messages' order.
std::vector<Box> arriving_tiles(const PlanData& data, int tensor, int rank);
// The boxes of a pass's result by reader and piece, where its tensor leaves tiled; the rank's own whole and last.
std::vector<Box> leaving_tiles(const PlanData& data, int pass, int rank);

// A part of a rank's work in a pass. first, last: of those that write this box of the result; those in between are added.
struct WorkPart {
  std::vector<Range> box{};
  bool first = true, last = true;
};
// What one kernel each does (kernel_boxes): the whole work where nothing is tiled; nothing where a tile's edge is along an index
// that a kernel cannot be cut at, or where a part would write a box of which the parts before it, or those after it, write some but
// not all.
std::optional<std::vector<WorkPart>> parts_of(const PlanData& data, int pass, int rank);

// A copy or broadcast that needs no kernel: its source is read in place.
bool is_view(const Pass& pass);
// Whether this hop's messages may go in that many pieces each.
bool may_tile(const PlanData& data, int tensor, Hop TensorPlan::*hop, int tiles);
inline constexpr int kTileCounts[] = {1, 2, 4, 8};
// Tiles every tensor's hops as the function says (0: not), where they may be. False: none.
bool tile_all(PlanData& data, const std::function<int(const Hop&)>& tiles_of);
// Some message goes where kernels may run beside it.
bool may_overlap(const PlanData& data, const Hop& hop);

}  // namespace motley
