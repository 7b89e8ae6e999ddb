// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace motley {

namespace {

std::string number(const char* format, double a, double b = 0) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, a, b);
  return text.data();
}

}  // namespace

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return number("%.0f us", seconds * 1e6);
  if (seconds < 1) return number("%.1f ms", seconds * 1e3);
  if (seconds < 100) return number("%.1f s", seconds);
  return number("%.0f min %.0f s", std::floor(seconds / 60), std::fmod(seconds, 60));
}

std::string bytes_text(double bytes) {
  constexpr std::array kUnits{" B", " kB", " MB", " GB", " TB"};
  std::size_t unit = 0;
  for (; bytes >= 1000 && unit + 1 < kUnits.size(); unit++) bytes /= 1000;
  return number(unit == 0 ? "%.0f" : "%.1f", bytes) + kUnits[unit];
}

}  // namespace motley
