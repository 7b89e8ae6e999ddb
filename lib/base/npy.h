// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy files, version 1.0 (numpy.lib.format): C order, little endian; f4, f8, i4, i8.
#pragma once
#include <motley/dims.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <variant>
#include <vector>

namespace motley {

using NpyData = std::variant<std::vector<float>, std::vector<double>, std::vector<std::int32_t>, std::vector<std::int64_t>>;
struct NpyArray {
  std::vector<Index> extents{};  // empty: a scalar
  NpyData data{};
};

// values: row-major, as many as the extents say. Whole or not at all; UserError (74).
void write_npy(const std::filesystem::path& path, const std::vector<Index>& extents, std::span<const float> values);
void write_npy(const std::filesystem::path& path, const std::vector<Index>& extents, std::span<const double> values);
void write_npy(const std::filesystem::path& path, const std::vector<Index>& extents, std::span<const std::int32_t> values);
void write_npy(const std::filesystem::path& path, const std::vector<Index>& extents, std::span<const std::int64_t> values);

// UserError: 66 no such file, 65 what is damaged or not one of the types above, with the byte.
NpyArray read_npy(const std::filesystem::path& path);

}  // namespace motley
