// SPDX-License-Identifier: Apache-2.0
#include "train/pictures.h"

#include <fmt/format.h>
#include <motley/error.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>  // before jpeglib.h, which uses FILE
#include <cstring>
#include <string>

#include <jerror.h>
#include <jpeglib.h>
#include <png.h>

#include "base/files.h"

namespace motley {

namespace fs = std::filesystem;

namespace {

constexpr std::array<std::uint8_t, 8> kPng{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
constexpr std::array<std::uint8_t, 3> kJpeg{0xff, 0xd8, 0xff};

[[noreturn]] void damaged(const fs::path& file, const std::string& what) {
  throw UserError(file.string() + ": " + what, Exit::data);
}

template <std::size_t N>
bool begins_with(const std::uint8_t* bytes, std::size_t size, const std::array<std::uint8_t, N>& start) {
  return size >= N && std::equal(start.begin(), start.end(), bytes);
}

Index big_endian(const std::uint8_t* bytes, int count) {
  Index out = 0;
  for (int i = 0; i < count; i++) out = out << 8 | bytes[i];
  return out;
}

// Target of the libraries' error callbacks: these return by longjmp, so the functions that call the libraries keep no objects with
// destructors.
struct Failure {
  std::jmp_buf back;
  char text[JMSG_LENGTH_MAX > 200 ? JMSG_LENGTH_MAX : 200];
};

// ---- PNG (libpng 1.6)

struct PngSource {
  Failure failure{};
  const std::uint8_t* bytes = nullptr;
  std::size_t size = 0, at = 0;
};

[[noreturn]] void png_failed(png_structp png, png_const_charp text) {
  auto* failure = static_cast<Failure*>(png_get_error_ptr(png));
  std::strncpy(failure->text, text, sizeof failure->text - 1);
  std::longjmp(failure->back, 1);
}

void png_warned(png_structp, png_const_charp) {}

void png_give(png_structp png, png_bytep out, std::size_t size) {
  auto* source = static_cast<PngSource*>(png_get_io_ptr(png));
  if (size > source->size - source->at) png_error(png, "the file ends too early");
  std::memcpy(out, source->bytes + source->at, size);
  source->at += size;
}

class Png {
 public:
  Png(const std::uint8_t* bytes, std::size_t size) {
    source_.bytes = bytes;
    source_.size = size;
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source_.failure, png_failed, png_warned);
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    if (info_ != nullptr) png_set_read_fn(png_, &source_, png_give);
  }
  ~Png() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;
  const char* failure() const { return source_.failure.text; }

  bool read_header(PictureSize& size) {
    if (info_ == nullptr || setjmp(source_.failure.back) != 0) return false;
    png_read_info(png_, info_);
    size = {static_cast<Index>(png_get_image_height(png_, info_)), static_cast<Index>(png_get_image_width(png_, info_))};
    return true;
  }
  // Bytes per pixel: 1 or 3.
  bool begin_pixels(int& channels) {
    if (setjmp(source_.failure.back) != 0) return false;
    png_set_expand(png_);
    png_set_scale_16(png_);
    png_set_strip_alpha(png_);
    static_cast<void>(png_set_interlace_handling(png_));
    png_read_update_info(png_, info_);
    channels = png_get_channels(png_, info_);
    return true;
  }
  bool read_pixels(png_bytepp rows) {
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

// ---- JPEG (libjpeg API, as in libjpeg-turbo)

class Jpeg {
 public:
  Jpeg(const std::uint8_t* bytes, std::size_t size) : bytes_(bytes), size_(size) {
    jpeg_.err = jpeg_std_error(&errors_);
    jpeg_.client_data = &failure_;
    errors_.error_exit = failed;
    errors_.emit_message = warned;
  }
  ~Jpeg() { jpeg_destroy_decompress(&jpeg_); }
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;
  const char* failure() const { return failure_.text; }

  bool read_header(PictureSize& size, int& channels) {
    if (setjmp(failure_.back) != 0) return false;
    jpeg_create_decompress(&jpeg_);
    jpeg_.client_data = &failure_;
    jpeg_mem_src(&jpeg_, bytes_, size_);
    static_cast<void>(jpeg_read_header(&jpeg_, TRUE));
    size = {static_cast<Index>(jpeg_.image_height), static_cast<Index>(jpeg_.image_width)};
    channels = jpeg_.num_components;
    return true;
  }
  bool read_pixels(int channels, unsigned char** rows) {
    if (setjmp(failure_.back) != 0) return false;
    jpeg_.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    static_cast<void>(jpeg_start_decompress(&jpeg_));
    while (jpeg_.output_scanline < jpeg_.output_height)
      static_cast<void>(jpeg_read_scanlines(&jpeg_, rows + jpeg_.output_scanline, 1));
    static_cast<void>(jpeg_finish_decompress(&jpeg_));
    return true;
  }

 private:
  [[noreturn]] static void failed(j_common_ptr jpeg) {
    auto* failure = static_cast<Failure*>(jpeg->client_data);
    jpeg->err->format_message(jpeg, failure->text);
    std::longjmp(failure->back, 1);
  }
  // Extra bytes are harmless and common; missing or invented pixels are not.
  static void warned(j_common_ptr jpeg, int level) {
    const int code = jpeg->err->msg_code;
    if (level < 0 && (code == JWRN_HIT_MARKER || code == JWRN_JPEG_EOF || code == JWRN_HUFF_BAD_CODE || code == JWRN_MUST_RESYNC))
      failed(jpeg);
  }

  const std::uint8_t* bytes_;
  std::size_t size_;
  Failure failure_{};
  jpeg_error_mgr errors_{};
  jpeg_decompress_struct jpeg_{};
};

void check_size(const fs::path& file, const PictureSize& found, const PictureSize& expected) {
  if (found != expected)
    damaged(file, "an image of " + std::to_string(found.rows) + " x " + std::to_string(found.cols) + " (rows, columns); expected " +
                      std::to_string(expected.rows) + " x " + std::to_string(expected.cols));
}

struct Pixels {
  int channels = 0;  // 1 or 3
  std::vector<std::uint8_t> values{};
  std::vector<std::uint8_t*> rows{};
  Pixels(const PictureSize& size, int of_each)
      : channels(of_each), values(static_cast<std::size_t>(size.rows * size.cols * of_each)) {
    for (Index r = 0; r < size.rows; r++) rows.push_back(values.data() + r * size.cols * of_each);
  }
};

Pixels read_png(const fs::path& file, const std::uint8_t* bytes, std::size_t size, const PictureSize& expected) {
  Png png(bytes, size);
  PictureSize found;
  int channels = 0;
  if (!png.read_header(found)) damaged(file, std::string("a damaged PNG file (") + png.failure() + ")");
  check_size(file, found, expected);
  if (!png.begin_pixels(channels) || (channels != 1 && channels != 3))
    damaged(file, std::string("a damaged PNG file (") + png.failure() + ")");
  Pixels out(found, channels);
  if (!png.read_pixels(out.rows.data())) damaged(file, std::string("a damaged PNG file (") + png.failure() + ")");
  return out;
}

void check_components(const fs::path& file, int count) {
  if (count != 1 && count != 3) damaged(file, "a JPEG of " + std::to_string(count) + " components (CMYK); convert it to RGB");
}

Pixels read_jpeg(const fs::path& file, const std::uint8_t* bytes, std::size_t size, const PictureSize& expected) {
  Jpeg jpeg(bytes, size);
  PictureSize found;
  int channels = 0;
  if (!jpeg.read_header(found, channels)) damaged(file, std::string("a damaged JPEG file (") + jpeg.failure() + ")");
  check_size(file, found, expected);
  check_components(file, channels);
  Pixels out(found, channels);
  if (!jpeg.read_pixels(channels, out.rows.data())) damaged(file, std::string("a damaged JPEG file (") + jpeg.failure() + ")");
  return out;
}

}  // namespace

void check_picture(const fs::path& file, const PictureSize& expected) {
  check_size(file, picture_size(file), expected);
}

PictureSize picture_size(const fs::path& path) {
  const InputFile file(path);
  std::array<std::uint8_t, 24> start{};
  const std::size_t there = std::min<std::uint64_t>(start.size(), file.size());
  file.read(0, std::as_writable_bytes(std::span(start).first(there)));
  const bool is_png = begins_with(start.data(), there, kPng);
  if (!is_png && !begins_with(start.data(), there, kJpeg)) damaged(path, "neither a PNG nor a JPEG file");
  const auto ends_early = [&] {
    damaged(path, fmt::format("a damaged {} file (it ends in its header, after {} bytes)", is_png ? "PNG" : "JPEG", file.size()));
  };
  if (there < start.size()) ends_early();
  if (is_png) return {big_endian(start.data() + 20, 4), big_endian(start.data() + 16, 4)};
  const auto read = [&](std::uint64_t from, std::span<std::uint8_t> out) {
    if (from > file.size() || out.size() > file.size() - from) ends_early();
    file.read(from, std::as_writable_bytes(out));
  };
  // Segments of a marker and a length up to the first frame header (ITU-T T.81, B.1.1.3, B.2.2).
  for (std::uint64_t at = 2;;) {
    std::array<std::uint8_t, 4> segment{};
    read(at, segment);
    if (segment[0] != 0xff) damaged(path, "a damaged JPEG file (byte " + std::to_string(at) + " is not a marker)");
    if (segment[1] == 0xff) {  // a fill byte
      at++;
      continue;
    }
    const int marker = segment[1];
    const bool frame = marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
    if (frame) {
      std::array<std::uint8_t, 6> header{};
      read(at + 4, header);
      check_components(path, header[5]);
      return {big_endian(header.data() + 1, 2), big_endian(header.data() + 3, 2)};
    }
    if (marker == 0xd9 || marker == 0xda) damaged(path, "a damaged JPEG file (it has no frame)");
    const bool alone = marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8);
    at += 2 + static_cast<std::uint64_t>(alone ? 0 : big_endian(segment.data() + 2, 2));
  }
}

std::vector<std::uint8_t> read_picture(const fs::path& path, Index channels, const PictureSize& expected) {
  check(channels == 1 || channels == 3, "a picture has 1 or 3 channels");
  const InputFile file(path);
  const std::string content = file.text(0, file.size());
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(content.data());
  if (!begins_with(bytes, content.size(), kPng) && !begins_with(bytes, content.size(), kJpeg))
    damaged(path, "neither a PNG nor a JPEG file");
  Pixels found = begins_with(bytes, content.size(), kPng) ? read_png(path, bytes, content.size(), expected)
                                                          : read_jpeg(path, bytes, content.size(), expected);
  if (found.channels == channels) return std::move(found.values);
  std::vector<std::uint8_t> out(static_cast<std::size_t>(expected.rows * expected.cols * channels));
  const std::vector<std::uint8_t>& in = found.values;
  if (channels == 3) {
    for (std::size_t i = 0; i < in.size(); i++) out[3 * i] = out[3 * i + 1] = out[3 * i + 2] = in[i];
  } else {  // ITU-R 601 in 16 bits, rounded, as PIL's "L"
    for (std::size_t i = 0; i < out.size(); i++)
      out[i] = static_cast<std::uint8_t>((19595U * in[3 * i] + 38470U * in[3 * i + 1] + 7471U * in[3 * i + 2] + 0x8000U) >> 16U);
  }
  return out;
}

}  // namespace motley
