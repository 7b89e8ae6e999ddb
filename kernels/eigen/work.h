// SPDX-License-Identifier: Apache-2.0
// How kernels made of Eigen's products divide their workspace and their work.
#pragma once
#include <motley/dims.h>

namespace motley::eigen {

inline constexpr std::size_t kAlignment = 64;  // bytes, of the workspace
inline constexpr Index kLine = 16;             // elements: a matrix begins on a cache line
// Least flops for another thread: about 10 us of one core, against 1-2 us to wake a team.
inline constexpr double kFlopsWorthAThread = 4e5;

inline Index lined(Index elements) {
  return (elements + kLine - 1) / kLine * kLine;
}

}  // namespace motley::eigen
