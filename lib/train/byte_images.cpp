// SPDX-License-Identifier: Apache-2.0
#include "train/byte_images.h"

#include <motley/error.h>

namespace motley {

Index product(const std::vector<Index>& extents) {
  Index n = 1;
  for (Index e : extents) n *= e;
  return n;
}

void ByteImages::read(Index sample, const Box& box, std::span<double> out) const {
  check(sample >= 0 && sample < samples() && volume(box) == static_cast<Index>(out.size()), "a sample's box fills what is given");
  const std::uint8_t* pixels = pixels_.data() + sample * product(extents_);
  std::size_t at = 0;
  for_each_stretch(extents_, box, [&](Index from, Index length) {
    for (Index i = 0; i < length; i++) out[at++] = pixels[from + i] / 255.0;
  });
}

}  // namespace motley
