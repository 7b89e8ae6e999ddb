// SPDX-License-Identifier: Apache-2.0
// What passes weigh against each other, roughly: one core of a server CPU (AVX-512, this thread's time).
#pragma once
#include <motley/dims.h>

namespace motley {

inline constexpr double kMemoryBytesPerSecond = 25e9, kCacheBytesPerSecond = 70e9;
inline constexpr double kStartSeconds = 0.2e-6;         // of a kernel
inline constexpr Index kInCacheBytes = Index{1} << 20;  // what a step before has left in a cache

}  // namespace motley
