// SPDX-License-Identifier: Apache-2.0
// Kernels run tile by tile, so that an exchange overlaps with them. A tensor that arrives tiled stays in separate buffers, one per
// message; its readers compute with the rank's own tile first, then with each other tile as it arrives. A tensor that leaves tiled
// is computed one reader's tile after the other, each sent while the next is computed, the rank's own last. Where a message takes
// longer than the work on the own tile it is sent in several pieces of its first dim: kernels run on the pieces that have arrived,
// or the next piece is computed, while the others are in flight. The order of tiles, and with it that of additions, follows from
// the plan alone.
#pragma once
#include <functional>
#include <optional>

#include "plan/plan_data.h"

namespace motley {

// What a rank holds of a tensor that arrives tiled: its own tile (an empty box if it has none), then the arriving tiles, in the
// messages' order.
std::vector<Box> arriving_tiles(const PlanData& data, int tensor, int rank);
// The boxes of a pass's result by reader and piece, if its tensor leaves tiled; the rank's own box is whole and last.
std::vector<Box> leaving_tiles(const PlanData& data, int pass, int rank);

// A part of a rank's work in a pass. first, last: of the parts that write this box of the result; the parts after the first are
// added to it.
struct WorkPart {
  Box box{};
  bool first = true, last = true;
};
// The work of one kernel each (kernel_boxes): the whole work if nothing is tiled; nothing if a tile's edge is along an index that a
// kernel cannot be cut at, or if a part would write a box of which the parts before it, or those after it, write some elements but
// not all.
std::optional<std::vector<WorkPart>> parts_of(const PlanData& data, int pass, int rank);

// A copy or broadcast that needs no kernel: its readers read the source in place.
bool is_view(const Pass& pass);
// Whether this hop's messages may go in as many pieces each as its `tiles` says.
bool may_tile(const PlanData& data, int tensor, Hop TensorPlan::*hop);
inline constexpr int kTileCounts[] = {1, 2, 4, 8};
// Tiles every tensor's hops as `tiles_of` says (0: not tiled), where they may be tiled. False: none was.
bool tile_all(PlanData& data, const std::function<int(const Hop&)>& tiles_of);
// Whether some message is between ranks where kernels may run at the same time.
bool may_overlap(const PlanData& data, const Hop& hop);

}  // namespace motley
