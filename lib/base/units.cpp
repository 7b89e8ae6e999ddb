// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

namespace motley {

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 100) return fmt::format("{:.1f} s", seconds);
  const auto of = [](double all, double each) { return std::pair(std::floor(all / each), std::fmod(all, each)); };
  if (const auto [minutes, rest] = of(std::round(seconds), 60); minutes < 100)
    return fmt::format("{:.0f} min {:.0f} s", minutes, rest);
  if (const auto [hours, rest] = of(std::round(seconds / 60), 60); hours < 1e4)
    return fmt::format("{:.0f} h {:.0f} min", hours, rest);
  return fmt::format("{:.3g} h", seconds / 3600);
}

std::string bytes_text(double bytes) {
  constexpr std::array kUnits{"B", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  for (; bytes >= (unit == 0 ? 1000 : 999.95) && unit + 1 < kUnits.size(); unit++) bytes /= 1000;  // 999.95 kB are 1.0 MB
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string price_text(double ratio) {
  return std::abs(ratio - 1) < 0.0005 ? "equal to 0.1 %" : fmt::format("{:+.1f} %", 100 * (ratio - 1));
}

std::string loss_text(double loss) {
  return std::abs(loss) < 1e6 ? fmt::format("{:.4f}", loss) : fmt::format("{:.4e}", loss);
}

}  // namespace motley
