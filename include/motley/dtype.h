// SPDX-License-Identifier: Apache-2.0
/// @file
/// Element types and orders in memory.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

namespace motley {
/// @addtogroup network
/// @{

/// Element type. bf16: the upper half of an f32, for storage and messages; kernels compute in f32.
enum class DType : std::uint8_t { f32, f64, i32, bf16 };

/// An element of DType::bf16: made of an f32 by rounding to nearest, ties to even.
struct Bf16 {
  std::uint16_t bits = 0;  ///< sign, exponent, the mantissa's first 7 bits
  Bf16() = default;
  /// Rounds.
  explicit constexpr Bf16(float value) : bits(rounded(std::bit_cast<std::uint32_t>(value))) {}
  /// Rounds to f32, then from there.
  explicit constexpr Bf16(double value) : Bf16(static_cast<float>(value)) {}
  /// The same value.
  explicit constexpr operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
  /// The same value.
  explicit constexpr operator double() const { return static_cast<double>(static_cast<float>(*this)); }

 private:
  static constexpr std::uint16_t rounded(std::uint32_t f) {
    const std::uint32_t nearest = f + 0x7fff + (f >> 16 & 1), nan = f | 0x400000;
    return static_cast<std::uint16_t>(((f & 0x7fffffff) > 0x7f800000 ? nan : nearest) >> 16);
  }
};

/// Order of a dense shard's elements in memory. plain: row-major in the tensor's dims. channels_last: dim 1 moved to the end (NHWC;
/// below three dims the same as plain).
enum class Format : std::uint8_t { plain, channels_last };

constexpr std::size_t bytes_of(DType t) {
  return t == DType::f64 ? 8 : t == DType::bf16 ? 2 : 4;
}  ///< Bytes of one element.
std::string to_string(DType t);   ///< As in files: `f32`.
std::string to_string(Format f);  ///< As in files: `channels_last`.

/// @}
}  // namespace motley
