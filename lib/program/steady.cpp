// SPDX-License-Identifier: Apache-2.0
#include "program/steady.h"

#include <utility>

#include "base/at.h"

namespace motley {

std::vector<Program> steady(std::vector<Program> programs) {
  for (Program& program : programs) {
    bool any = false;
    for (std::size_t s = 0; s < program.steps.size(); s++) any = any || is_kept(program, s);
    if (!any) continue;
    std::vector<int> now;  // step -> how many steps are left before it
    std::vector<ProgramStep> steps;
    for (std::size_t s = 0; s < program.steps.size(); s++) {
      now.push_back(static_cast<int>(steps.size()));
      if (!is_kept(program, s)) steps.push_back(program.steps[s]);
    }
    now.push_back(static_cast<int>(steps.size()));
    program.steps = std::move(steps);
    for (int* part : {&program.forward_steps, &program.combine_begin, &program.update_begin, &program.move_begin})
      *part = at(now, *part);
    for (Chain& c : program.chains) {
      c.begin = at(now, c.begin);
      c.end = at(now, c.end);
    }
    std::erase_if(program.chains, [](const Chain& c) { return c.begin == c.end; });
  }
  return programs;
}

}  // namespace motley
