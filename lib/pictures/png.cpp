// SPDX-License-Identifier: Apache-2.0
// PNG by libpng 1.6.
#include <png.h>

#include <array>
#include <cstring>
#include <string_view>

#include "pictures/codec.h"
#include "pictures/exif.h"

namespace motley {

namespace fs = std::filesystem;

namespace {

struct PngSource {
  Failure failure{};
  const char* bytes = nullptr;
  std::size_t size = 0, at = 0;
};

[[noreturn]] void failed(png_structp png, png_const_charp text) {
  auto* failure = static_cast<Failure*>(png_get_error_ptr(png));
  std::strncpy(failure->text, text, sizeof failure->text - 1);
  std::longjmp(failure->back, 1);
}

void warned(png_structp, png_const_charp) {}

void give(png_structp png, png_bytep out, std::size_t size) {
  auto* source = static_cast<PngSource*>(png_get_io_ptr(png));
  if (size > source->size - source->at) png_error(png, "the file ends too early");
  std::memcpy(out, source->bytes + source->at, size);
  source->at += size;
}

class Png {
 public:
  explicit Png(std::string_view content) {
    source_.bytes = content.data();
    source_.size = content.size();
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source_.failure, failed, warned);
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    if (info_ == nullptr) return;
    png_set_read_fn(png_, &source_, give);
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // kMostPixels has been checked
  }
  ~Png() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;
  const char* failure() const { return source_.failure.text; }

  // channels: bytes of a pixel, 1 or 3.
  bool begin(PictureSize& size, int& channels) {
    if (info_ == nullptr || setjmp(source_.failure.back) != 0) return false;
    png_read_info(png_, info_);
    png_set_expand(png_);
    png_set_scale_16(png_);  // divided by 257, rounded
    png_set_strip_alpha(png_);
    static_cast<void>(png_set_interlace_handling(png_));
    png_read_update_info(png_, info_);
    size = {static_cast<Index>(png_get_image_height(png_, info_)), static_cast<Index>(png_get_image_width(png_, info_))};
    channels = png_get_channels(png_, info_);
    return true;
  }
  bool read(png_bytepp rows) {
    if (setjmp(source_.failure.back) != 0) return false;
    png_read_image(png_, rows);
    png_read_end(png_, nullptr);
    return true;
  }

 private:
  PngSource source_{};
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

// Chunks of a length, a name, that many bytes, and a checksum (PNG specification, 5.3).
PictureFacts png_facts(const InputFile& file, Until until) {
  PictureFacts out;
  for (std::uint64_t at = 8;;) {
    std::array<std::uint8_t, 8> begin{};
    read_header(file, "PNG", at, begin);
    const auto length = static_cast<std::uint64_t>(big_endian(begin.data(), 4));
    const std::string_view name(reinterpret_cast<const char*>(begin.data()) + 4, 4);
    if (at == 8) {
      std::array<std::uint8_t, 13> header{};
      if (name != "IHDR") damaged_picture(file.path(), "a damaged PNG file (it does not begin with its header)");
      read_header(file, "PNG", at + 8, header);
      out.size = {big_endian(header.data() + 4, 4), big_endian(header.data(), 4)};
      out.alpha = header[9] == 4 || header[9] == 6;  // colour type
    }
    if (name == "tRNS") out.alpha = true;
    if (name == "eXIf" && length <= kMostExif) {
      std::vector<std::uint8_t> exif(static_cast<std::size_t>(length));
      read_header(file, "PNG", at + 8, exif);
      out.orientation = exif_orientation(exif);
    }
    if (name == "IEND" || (name == "IDAT" && until == Until::pixels)) return out;
    at += 12 + length;
  }
}

Picture decode_png(const fs::path& file, std::string_view content, const PictureSize& size) {
  Png png(content);
  PictureSize found;
  int channels = 0;
  if (!png.begin(found, channels) || found != size || (channels != 1 && channels != 3))
    damaged_picture(file, std::string("a damaged PNG file (") + png.failure() + ")");
  Picture out{size, channels, std::vector<std::uint8_t>(static_cast<std::size_t>(size.rows * size.cols * channels))};
  std::vector<png_bytep> rows;
  for (Index r = 0; r < size.rows; r++) rows.push_back(out.pixels.data() + r * size.cols * channels);
  if (!png.read(rows.data())) damaged_picture(file, std::string("a damaged PNG file (") + png.failure() + ")");
  return out;
}

}  // namespace motley
