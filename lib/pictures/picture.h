// SPDX-License-Identifier: Apache-2.0
// The picture of a PNG or JPEG file. The kind of a file is recognized by its content, not its name.
#pragma once
#include <motley/dims.h>

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/files.h"

namespace motley {

struct PictureSize {
  Index rows = 0, cols = 0;
  bool operator==(const PictureSize&) const = default;
};

struct Picture {
  PictureSize size{};
  Index channels = 0;
  std::vector<std::uint8_t> pixels{};  // [rows, cols, channels]
};

constexpr Index kMostPixels = Index{1} << 28;  // of one picture

struct PictureFacts {
  PictureSize size{};   // as the picture is seen: turned as its EXIF says
  int orientation = 1;  // of EXIF (tag 0x0112), 1 to 8; 1: stored as it is seen
  bool alpha = false;   // or colours that are transparent
};

// Reads the file's headers: what a PNG says after its pixels (EXIF may be there) is found only when it is decoded. UserError (with
// the file): 66; 65 not a picture, a damaged header, more than kMostPixels.
PictureFacts picture_facts(const std::filesystem::path& file);

// As Pillow decodes it and turns it (ImageOps.exif_transpose): alpha is dropped, 16 bits become 8 (divided by 257), gamma is
// ignored, CMYK becomes RGB with Adobe's inversion. channels: 1 (colours become their luminance, ITU-R 601) or 3 (grey is
// repeated). UserError (with the file): as picture_facts(), and 65 damaged.
Picture decode_picture(const std::filesystem::path& file, Index channels);

}  // namespace motley
