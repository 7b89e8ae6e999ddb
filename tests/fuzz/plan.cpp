// SPDX-License-Identifier: Apache-2.0
// Plan files for one step and mesh: a plan that is taken is written as it was read, and compiles for every rank.
#include <motley/program.h>

#include "plan/plan_file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/planned.h"

namespace motley::fuzz {

void take(std::string_view input) {
  static const SmallStep small;
  const std::string name = "input.json", text(input);
  is_taken(name, [&] { static_cast<void>(evaluation_text(name, text)); });
  is_taken(name, [&] { static_cast<void>(made_for(name, text)); });
  is_taken(name, [&] {
    const Plan plan = plan_of_text(name, text, small.step, small.mesh);
    const std::string written = to_text(kept_json(plan));
    const Plan again = plan_of_text("written", written, small.step, small.mesh);
    require(to_text(kept_json(again)) == written, "what was written and read is the same: " + written);
    for (int rank = 0; rank < small.mesh.ranks(); rank++) static_cast<void>(compile(plan, rank));
  });
}

}  // namespace motley::fuzz
