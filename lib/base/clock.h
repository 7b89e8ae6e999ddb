// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <chrono>
#include <ctime>
#include <string>

namespace motley {

// Seconds of CLOCK_MONOTONIC, which all ranks of one host share.
inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// "2026-11-29T08:15:00Z", or as strftime() writes the format.
inline std::string utc_now(const char* format = "%Y-%m-%dT%H:%M:%SZ") {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  std::array<char, 32> text{};
  return gmtime_r(&now, &utc) != nullptr && std::strftime(text.data(), text.size(), format, &utc) > 0 ? text.data() : "";
}

}  // namespace motley
