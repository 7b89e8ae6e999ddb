// SPDX-License-Identifier: Apache-2.0
#include "pictures/picture.h"

#include <fmt/format.h>
#include <motley/error.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/likely_kind.h"
#include "pictures/codec.h"
#include "pictures/exif.h"

namespace motley {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPng("\x89PNG\r\n\x1a\n", 8), kJpeg("\xff\xd8\xff", 3);

bool is_png(const InputFile& file, const std::string& start) {
  if (start.starts_with(kPng)) return true;
  if (!start.starts_with(kJpeg)) damaged_picture(file.path(), "neither a PNG nor a JPEG file" + likely_kind(start));
  return false;
}

std::string start_of(const InputFile& file) {
  return file.text(0, std::min<std::uint64_t>(file.size(), kKindBytes));
}

PictureFacts facts_of(const InputFile& file, Until until) {
  PictureFacts out = is_png(file, start_of(file)) ? png_facts(file, until) : jpeg_facts(file);
  const auto [rows, cols] = out.size;
  if (rows < 1 || cols < 1) damaged_picture(file.path(), fmt::format("a picture of {} x {} pixels", rows, cols));
  if (rows > kMostPixels / cols)
    damaged_picture(file.path(), fmt::format("a picture of {} x {} pixels; at most {} pixels are read, make it smaller", rows, cols,
                                             kMostPixels));
  out.size = turned(out.size, out.orientation);
  return out;
}

// ITU-R 601 in 16 bits, rounded, as Pillow's "L".
std::uint8_t luminance(const std::uint8_t* rgb) {
  return static_cast<std::uint8_t>((19595U * rgb[0] + 38470U * rgb[1] + 7471U * rgb[2] + 0x8000U) >> 16U);
}

Picture in_channels(Picture picture, Index channels) {
  if (picture.channels == channels) return picture;
  const auto count = static_cast<std::size_t>(picture.size.rows * picture.size.cols);
  Picture out{picture.size, channels, std::vector<std::uint8_t>(count * static_cast<std::size_t>(channels))};
  for (std::size_t i = 0; i < count; i++) {
    if (channels == 1)
      out.pixels[i] = luminance(picture.pixels.data() + 3 * i);
    else
      std::fill_n(out.pixels.begin() + static_cast<std::ptrdiff_t>(3 * i), 3, picture.pixels[i]);
  }
  return out;
}

}  // namespace

void damaged_picture(const fs::path& file, const std::string& what) {
  throw UserError(file.string() + ": " + what, Exit::data);
}

void read_header(const InputFile& file, const char* kind, std::uint64_t from, std::span<std::uint8_t> out) {
  if (from > file.size() || out.size() > file.size() - from)
    damaged_picture(file.path(), fmt::format("a damaged {} file (it ends too early, after {} bytes)", kind, file.size()));
  file.read(from, std::as_writable_bytes(out));
}

Index big_endian(const std::uint8_t* bytes, int count) {
  Index out = 0;
  for (int i = 0; i < count; i++) out = out << 8 | bytes[i];
  return out;
}

PictureFacts picture_facts(const fs::path& path) {
  return facts_of(InputFile(path), Until::pixels);
}

Picture decode_picture(const fs::path& path, Index channels) {
  check(channels == 1 || channels == 3, "a picture has 1 or 3 channels");
  const InputFile file(path);
  const PictureFacts facts = facts_of(file, Until::end);
  const std::string content = file.text();
  const PictureSize stored = turned(facts.size, facts.orientation);
  Picture picture = content.starts_with(kPng) ? decode_png(path, content, stored) : decode_jpeg(path, content, stored);
  return upright(in_channels(std::move(picture), channels), facts.orientation);
}

}  // namespace motley
