// SPDX-License-Identifier: Apache-2.0
// What the two formats share: a file's headers give facts, its content gives pixels as they are stored.
#pragma once
#include <csetjmp>
#include <span>
#include <string>
#include <string_view>

#include "pictures/picture.h"

namespace motley {

// UserError (65): the file, then `what`.
[[noreturn]] void damaged_picture(const std::filesystem::path& file, const std::string& what);
// Bytes of a header. UserError (65): the file ends before.
void read_header(const InputFile& file, const char* kind, std::uint64_t from, std::span<std::uint8_t> out);
// Of bytes in this order.
Index big_endian(const std::uint8_t* bytes, int count);

// The target of a library's error callback, which returns by longjmp: functions that call the library keep no objects with
// destructors.
struct Failure {
  std::jmp_buf back;
  char text[256] = "its headers contradict each other";  // replaced by the library's message
};

// A PNG's chunks up to its pixels, or all of them: EXIF may follow the pixels, and is found without reading the file only before.
enum class Until : std::uint8_t { pixels, end };
PictureFacts png_facts(const InputFile& file, Until until);
PictureFacts jpeg_facts(const InputFile& file);
// Pixels as they are stored (not turned), of 1 or 3 channels. content: the whole file; size: by its header, as it is stored.
Picture decode_png(const std::filesystem::path& file, std::string_view content, const PictureSize& size);
Picture decode_jpeg(const std::filesystem::path& file, std::string_view content, const PictureSize& size);

}  // namespace motley
