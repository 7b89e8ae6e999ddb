// SPDX-License-Identifier: Apache-2.0
// The steps of a training after its first one: what frozen parameters decide has been sent and computed.
#pragma once
#include <motley/program.h>

namespace motley {

// Whether step `s` does nothing then.
inline bool is_kept(const Program& program, std::size_t s) {
  return program.micro_batches == 1 && program.steps[s].once;
}
// The Programs without these steps: what is simulated.
std::vector<Program> steady(std::vector<Program> programs);

}  // namespace motley
