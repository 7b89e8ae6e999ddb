// SPDX-License-Identifier: Apache-2.0
/// @file
/// Element types and orders in memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace motley {
/// @addtogroup network
/// @{

/// Element type.
enum class DType : std::uint8_t { f32, f64, i32 };

/// Order of a dense shard in memory. plain: row-major in the tensor's dims. channels_last: dim 1 moved to the end (NHWC; the same
/// as plain below three dims).
enum class Format : std::uint8_t { plain, channels_last };

constexpr std::size_t bytes_of(DType t) {
  return t == DType::f64 ? 8 : 4;
}  ///< Bytes of one element.
std::string to_string(DType t);   ///< As in files: `f32`.
std::string to_string(Format f);  ///< As in files: `channels_last`.

/// @}
}  // namespace motley
