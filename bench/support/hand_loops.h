// SPDX-License-Identifier: Apache-2.0
// What maps compute, as loops that someone wrote for the purpose: compiled per ISA, with the flags of kernels/loops.
#pragma once
#include <motley/dims.h>

#include <string>
#include <vector>

namespace motley::bench {

using HandLoop = void (*)(float* const* operands, Index n);  // in the order of the map's operands; scalars are 0.01 and 1
struct HandLoops {
  std::string isa{};
  std::vector<std::pair<std::string, HandLoop>> list{};  // by name
};
const HandLoops& hand_loops_generic();
#if defined(__x86_64__)
const HandLoops& hand_loops_sse41();
const HandLoops& hand_loops_avx2();
const HandLoops& hand_loops_avx512();
#endif

}  // namespace motley::bench
