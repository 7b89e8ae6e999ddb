// SPDX-License-Identifier: Apache-2.0
// JPEG by libjpeg's API, as in libjpeg-turbo.
#include <array>
#include <cstdio>  // before jpeglib.h, which uses FILE
#include <string_view>

#include <jerror.h>
#include <jpeglib.h>

#include "pictures/codec.h"
#include "pictures/exif.h"

namespace motley {

namespace fs = std::filesystem;

namespace {

static_assert(JMSG_LENGTH_MAX <= sizeof(Failure::text));

class Jpeg {
 public:
  explicit Jpeg(std::string_view content) : content_(content) {
    jpeg_.err = jpeg_std_error(&errors_);
    jpeg_.client_data = &failure_;
    errors_.error_exit = failed;
    errors_.emit_message = warned;
  }
  ~Jpeg() { jpeg_destroy_decompress(&jpeg_); }
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;
  const char* failure() const { return failure_.text; }

  bool begin(PictureSize& size, int& components) {
    if (setjmp(failure_.back) != 0) return false;
    jpeg_create_decompress(&jpeg_);
    jpeg_.client_data = &failure_;
    jpeg_mem_src(&jpeg_, reinterpret_cast<const unsigned char*>(content_.data()), content_.size());
    static_cast<void>(jpeg_read_header(&jpeg_, TRUE));
    size = {static_cast<Index>(jpeg_.image_height), static_cast<Index>(jpeg_.image_width)};
    components = jpeg_.num_components;
    return true;
  }
  bool read(int components, unsigned char** rows) {
    if (setjmp(failure_.back) != 0) return false;
    jpeg_.out_color_space = components == 1 ? JCS_GRAYSCALE : components == 3 ? JCS_RGB : JCS_CMYK;
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

  std::string_view content_;
  Failure failure_{};
  jpeg_error_mgr errors_{};
  jpeg_decompress_struct jpeg_{};
};

// Adobe writes 255 where there is no ink, and so do all others that write four components. As Pillow's conversion, of 4 bytes to 3.
void rgb_of_inverted_cmyk(Picture& picture) {
  const auto product = [](int a, int b) {  // a * b / 255, rounded
    const int twice = a * b + 128;
    return (twice + (twice >> 8)) >> 8;
  };
  std::vector<std::uint8_t>& p = picture.pixels;
  const std::size_t count = p.size() / 4;
  for (std::size_t i = 0; i < count; i++) {
    const int light = p[4 * i + 3];  // 255 minus black
    for (std::size_t c = 0; c < 3; c++) p[3 * i + c] = static_cast<std::uint8_t>(light - product(255 - p[4 * i + c], light));
  }
  p.resize(3 * count);
  picture.channels = 3;
}

constexpr bool is_frame(int marker) {
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

}  // namespace

// Segments of a marker and a length up to the first scan (ITU-T T.81, B.1.1.3, B.2.2).
PictureFacts jpeg_facts(const InputFile& file) {
  PictureFacts out;
  const auto damaged = [&](const std::string& what) { damaged_picture(file.path(), "a damaged JPEG file (" + what + ")"); };
  for (std::uint64_t at = 2;;) {
    std::array<std::uint8_t, 4> segment{};
    read_header(file, "JPEG", at, segment);
    if (segment[0] != 0xff) damaged("byte " + std::to_string(at) + " is not a marker");
    const int marker = segment[1];
    if (marker == 0xff) {  // a fill byte
      at++;
      continue;
    }
    if (marker == 0xd9 || marker == 0xda) {
      if (out.size.rows == 0 && out.size.cols == 0) damaged("it has no frame");
      return out;
    }
    const bool alone = marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8);
    const Index length = alone ? 0 : big_endian(segment.data() + 2, 2);
    if (is_frame(marker)) {
      std::array<std::uint8_t, 6> frame{};
      read_header(file, "JPEG", at + 4, frame);
      out.size = {big_endian(frame.data() + 1, 2), big_endian(frame.data() + 3, 2)};
      if (const int count = frame[5]; count != 1 && count != 3 && count != 4)
        damaged_picture(file.path(),
                        "a JPEG of " + std::to_string(count) + " components; expected 1 (grey), 3 (colours) or 4 (CMYK)");
    } else if (marker == 0xe1 && length > 2) {  // APP1: EXIF, or another kind of metadata
      std::vector<std::uint8_t> payload(static_cast<std::size_t>(length - 2));
      read_header(file, "JPEG", at + 4, payload);
      if (const int found = exif_orientation(payload); found != 1) out.orientation = found;
    }
    at += 2 + static_cast<std::uint64_t>(length);
  }
}

Picture decode_jpeg(const fs::path& file, std::string_view content, const PictureSize& size) {
  Jpeg jpeg(content);
  PictureSize found;
  int components = 0;
  const auto damaged = [&] { damaged_picture(file, std::string("a damaged JPEG file (") + jpeg.failure() + ")"); };
  if (!jpeg.begin(found, components) || found != size) damaged();
  Picture out{size, components, std::vector<std::uint8_t>(static_cast<std::size_t>(size.rows * size.cols * components))};
  std::vector<unsigned char*> rows;
  for (Index r = 0; r < size.rows; r++) rows.push_back(out.pixels.data() + r * size.cols * components);
  if (!jpeg.read(components, rows.data())) damaged();
  if (components == 4) rgb_of_inverted_cmyk(out);
  return out;
}

}  // namespace motley
