// SPDX-License-Identifier: Apache-2.0
// Rough costs that passes compare: one core of a server CPU (AVX-512, this thread's time).
#pragma once
#include <motley/kernel_spec.h>

namespace motley {

inline constexpr double kMemoryBytesPerSecond = 25e9, kCacheBytesPerSecond = 70e9;
inline constexpr double kStartSeconds = 0.2e-6;         // of starting a kernel
inline constexpr Index kInCacheBytes = Index{1} << 20;  // what the previous step has left in a cache

// Bytes of a map's operand, each element once.
inline Index bytes_of(const KernelSpec& spec, const MapOperand& operand) {
  Index bytes = static_cast<Index>(bytes_of(operand.dtype));
  for (std::size_t d = 0; d < spec.extents.size(); d++) bytes *= operand.strides[d] == 0 ? 1 : spec.extents[d];
  return bytes;
}

}  // namespace motley
