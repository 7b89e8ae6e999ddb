// SPDX-License-Identifier: Apache-2.0
#include <motley/profile.h>

#include <algorithm>

#include "program/compile.h"

namespace motley {

// One piece is copied while the previous one is sent. Both ends divide a message in the same way.
void tile(Program& program, const PlanData& plan) {
  auto on_device = [&](int rank) { return at(plan.on_device, rank); };
  for (ProgramStep& step : program.steps) {
    auto* post = std::get_if<Post>(&step.what);
    if (post == nullptr) continue;
    for (auto* pieces : {&post->sends, &post->receives}) {
      std::vector<Piece> out;
      for (const Piece& whole : *pieces) {
        const Index item = static_cast<Index>(bytes_of(at(program.buffers, whole.at.buffer).dtype));
        const Index most = on_device(program.rank) || on_device(whole.peer) ? kStagedBytes : whole.bytes;
        if (whole.window) out.push_back(whole);
        for (Index done = 0; done < whole.bytes && !whole.window; done += most)
          out.push_back({whole.peer, {whole.at.buffer, whole.at.element + done / item}, std::min(most, whole.bytes - done)});
      }
      *pieces = std::move(out);
    }
  }
}

}  // namespace motley
