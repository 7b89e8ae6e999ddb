// SPDX-License-Identifier: Apache-2.0
#include "pictures/exif.h"

#include <libexif/exif-data.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

namespace motley {

namespace {

constexpr std::string_view kStart("Exif\0\0", 6);

constexpr bool exchanges_edges(int orientation) {
  return orientation >= 5;
}

}  // namespace

int exif_orientation(std::span<const std::uint8_t> exif) {
  const std::string_view text(reinterpret_cast<const char*>(exif.data()), exif.size());
  std::vector<std::uint8_t> whole;  // as libexif expects it
  if (!text.starts_with(kStart)) {
    if (!text.starts_with("II") && !text.starts_with("MM")) return 1;
    whole.assign(kStart.begin(), kStart.end());
    whole.insert(whole.end(), exif.begin(), exif.end());
    exif = whole;
  }
  const std::unique_ptr<ExifData, void (*)(ExifData*)> data(exif_data_new(), exif_data_unref);
  if (data == nullptr) return 1;
  exif_data_unset_option(data.get(), EXIF_DATA_OPTION_FOLLOW_SPECIFICATION);  // which would add tags that are not there
  exif_data_load_data(data.get(), exif.data(), static_cast<unsigned>(exif.size()));
  const ExifEntry* entry = exif_content_get_entry(data->ifd[EXIF_IFD_0], EXIF_TAG_ORIENTATION);
  if (entry == nullptr || entry->format != EXIF_FORMAT_SHORT || entry->size < 2) return 1;
  const int found = exif_get_short(entry->data, exif_data_get_byte_order(data.get()));
  return found >= 1 && found <= 8 ? found : 1;
}

PictureSize turned(const PictureSize& size, int orientation) {
  return exchanges_edges(orientation) ? PictureSize{size.cols, size.rows} : size;
}

// Pixel (r, c) of the upright picture is that pixel of the stored one (H rows, W columns): 2 (r, W-1-c), 3 (H-1-r, W-1-c),
// 4 (H-1-r, c), 5 (c, r), 6 (H-1-c, r), 7 (H-1-c, W-1-r), 8 (c, W-1-r).
Picture upright(Picture picture, int orientation) {
  if (orientation <= 1) return picture;
  const Index rows = picture.size.rows, cols = picture.size.cols, channels = picture.channels;
  Picture out{turned(picture.size, orientation), channels, std::vector<std::uint8_t>(picture.pixels.size())};
  const bool from_below = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  std::uint8_t* to = out.pixels.data();
  for (Index r = 0; r < out.size.rows; r++)
    for (Index c = 0; c < out.size.cols; c++) {
      Index y = r, x = c;
      if (exchanges_edges(orientation)) std::swap(y, x);
      if (from_below) y = rows - 1 - y;
      if (from_right) x = cols - 1 - x;
      to = std::copy_n(picture.pixels.data() + (y * cols + x) * channels, channels, to);
    }
  return out;
}

}  // namespace motley
