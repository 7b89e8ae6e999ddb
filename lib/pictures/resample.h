// SPDX-License-Identifier: Apache-2.0
// Pictures in another size.
#pragma once
#include "pictures/picture.h"

namespace motley {

struct Region {  // of a picture's pixels
  Range rows{}, cols{};
};
inline Region whole(const PictureSize& size) {
  return {{0, size.rows}, {0, size.cols}};
}

// The region scaled to `size`; of that, the pixels inside `part`: [rows, cols, channels]. Bilinear with antialiasing, bit for bit
// as Pillow 12 scales the region alone (resize(..., BILINEAR), which torchvision's transforms of pictures call). Pillow 13, which
// scales tall pictures down before across, and torchvision's transforms of tensors differ by at most 1 of 255. A pixel is the same
// whatever `part` is.
std::vector<std::uint8_t> resized(const Picture& picture, const Region& region, const PictureSize& size, const Region& part);

}  // namespace motley
