// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy files, written as version 1.0, read as 1.0 to 3.0 (numpy.lib.format): C order, little endian; f4, f8, i4, i8, and f2
// read.
#pragma once
#include <motley/dims.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace motley {

using NpyData = std::variant<std::vector<float>, std::vector<double>, std::vector<std::int32_t>, std::vector<std::int64_t>>;
struct NpyArray {
  std::vector<Index> extents{};  // empty: a scalar
  NpyData data{};                // f2: as f4
};
struct NpyHeader {
  std::string descr{};  // byte order, kind, bytes of an element
  std::vector<Index> extents{};
  std::size_t data = 0;      // the first byte after the header
  std::size_t elements = 0;  // number of elements that follow
};
constexpr std::size_t kMostNpyHeader = 65536;  // size limit in bytes of a header that is read

// values: row-major, as many as the extents say. The file appears whole or not at all; UserError (74).
void write_npy(const std::filesystem::path& path, const std::vector<Index>& extents, std::span<const float> values);
void write_npy(const std::filesystem::path& path, const std::vector<Index>& extents, std::span<const double> values);
void write_npy(const std::filesystem::path& path, const std::vector<Index>& extents, std::span<const std::int32_t> values);
void write_npy(const std::filesystem::path& path, const std::vector<Index>& extents, std::span<const std::int64_t> values);

// The part of the file before the values.
std::string npy_start(std::string_view descr, const std::vector<Index>& extents);
// Types of elements that read_npy() gives.
inline constexpr std::array<std::string_view, 5> kNpyTypes{"<f2", "<f4", "<f8", "<i4", "<i8"};
// Parses the first kMostNpyHeader + 12 bytes of a file, or all of a shorter one. UserError (65) begins with `name`; also for
// elements of any other type.
NpyHeader parse_npy_header(const std::string& name, std::string_view bytes, std::span<const std::string_view> types = kNpyTypes);
// Checks that the bytes after the header are exactly those of its elements. UserError (65)
void check_npy_size(const std::string& name, const NpyHeader& header, std::size_t bytes_of_file);
NpyArray parse_npy(const std::string& name, std::string_view bytes);  // of a complete file

// UserError: 66 no such file, 65 what is damaged or not one of the types above, with the byte's position.
NpyArray read_npy(const std::filesystem::path& path);

}  // namespace motley
