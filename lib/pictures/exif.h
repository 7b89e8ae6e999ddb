// SPDX-License-Identifier: Apache-2.0
// How a camera was held, from a picture's EXIF data (CIPA DC-008, tag 0x0112), by libexif.
#pragma once
#include <cstdint>
#include <span>

#include "pictures/picture.h"

namespace motley {

constexpr std::uint64_t kMostExif = 1 << 20;  // bytes that are read; a JPEG's segment has at most 65533

// exif: a TIFF header and what follows, with "Exif\0\0" before it or not. 1 where it is something else, or does not say.
int exif_orientation(std::span<const std::uint8_t> exif);

// The picture as it is seen. orientation: 1 to 8.
Picture upright(Picture picture, int orientation);
// The size of the picture as it is seen, of one that is stored in this size; and the other way round.
PictureSize turned(const PictureSize& size, int orientation);

}  // namespace motley
