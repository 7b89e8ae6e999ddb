// SPDX-License-Identifier: Apache-2.0
// PNG and JPEG files: headers, EXIF, pixels.
#include "pictures/picture.h"

#include "tests/fuzz/fuzz.h"

namespace motley::fuzz {

void take(std::string_view input) {
  constexpr Index kMostDecoded = 1 << 20;  // pixels: a small file may be a picture that takes a second to decode
  const std::string file = file_of("input", input);
  PictureFacts facts;
  if (!is_taken(file, [&] { facts = picture_facts(file); })) return;
  require(facts.orientation >= 1 && facts.orientation <= 8, "one of eight orientations");
  if (facts.size.rows * facts.size.cols > kMostDecoded) return;
  for (const Index channels : {1, 3})
    is_taken(file, [&] {
      const Picture picture = decode_picture(file, channels);
      require(picture.channels == channels, "the channels that were requested");
      require(static_cast<Index>(picture.pixels.size()) == picture.size.rows * picture.size.cols * channels, "all pixels");
    });
}

}  // namespace motley::fuzz
