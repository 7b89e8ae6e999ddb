// SPDX-License-Identifier: Apache-2.0
// Floats of 16 bits, widened; exact.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace motley {

// IEEE 754 binary16.
inline float float_of_f16(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16, exponent = half >> 10 & 0x1fU,
                      fraction = half & 0x3ffU;
  if (exponent == 0) return std::copysign(std::ldexp(static_cast<float>(fraction), -24), sign != 0 ? -1.0F : 1.0F);
  return std::bit_cast<float>(sign | (exponent == 31 ? 255U : exponent + 112U) << 23 | fraction << 13);
}

// The upper half of a binary32.
inline float float_of_bf16(std::uint16_t half) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
}

}  // namespace motley
