// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>

namespace motley {

// Seconds of CLOCK_MONOTONIC, which all ranks of one host share.
inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace motley
