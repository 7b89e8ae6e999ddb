// SPDX-License-Identifier: Apache-2.0
// What maps compute, as loops that someone wrote for the purpose: compiled per ISA, with the flags of kernels/loops.
#pragma once
#include <motley/dims.h>

#include <string>
#include <vector>

namespace motley::bench {

constexpr Index kNormChannels = 64;
using HandLoop = void (*)(float* const* operands, Index n);  // in the order of the map's operands; scalars are 0.01 and 1
// One row after another, each while it is in the cache: y of x, both [rows, n], weight and bias [n] (a softmax has none); n is a
// multiple of 32.
struct HandRow {
  const float* x = nullptr;
  float* y = nullptr;
  const float *weight = nullptr, *bias = nullptr;
};
using HandRows = void (*)(HandRow at, Index rows, Index n);
struct HandLoops {
  std::string isa{};
  std::vector<std::pair<std::string, HandLoop>> list{};  // by name
  std::vector<std::pair<std::string, HandRows>> rows{};
};
// Those of an ISA as backends name it.
const HandLoops& hand_loops(const std::string& isa);
const HandLoops& hand_loops_generic();
#if defined(__x86_64__)
const HandLoops& hand_loops_sse41();
const HandLoops& hand_loops_avx2();
const HandLoops& hand_loops_avx512();
#endif

}  // namespace motley::bench
