// SPDX-License-Identifier: Apache-2.0
// PNG and JPEG files. The kind of a file is recognized by its content, not its name.
#pragma once
#include <motley/dims.h>

#include <cstdint>
#include <filesystem>
#include <vector>

namespace motley {

struct PictureSize {
  Index rows = 0, cols = 0;
  bool operator==(const PictureSize&) const = default;
};

// By the file's header. UserError (with the file): 66, 65 not a picture.
PictureSize picture_size(const std::filesystem::path& file);
void check_picture(const std::filesystem::path& file, const PictureSize& expected);  // the same, and 65 if it has another size

// [rows, cols, channels], as PIL decodes them: alpha is dropped, 16 bits become 8, gamma and orientation are ignored. channels: 1
// (colours become their luminance, ITU-R 601) or 3 (grey is repeated). UserError (with the file): 66; 65 damaged, or of another
// size.
std::vector<std::uint8_t> read_picture(const std::filesystem::path& file, Index channels, const PictureSize& expected);

}  // namespace motley
