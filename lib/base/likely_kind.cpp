// SPDX-License-Identifier: Apache-2.0
#include "base/likely_kind.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"

namespace motley {

namespace {

struct FileMagic {
  std::size_t at;
  std::string_view magic, name;
};

using std::literals::string_view_literals::operator""sv;

constexpr std::array kFileMagics{FileMagic{0, "\x93NUMPY"sv, "a .npy file"},
                                 FileMagic{0, "PK\x03\x04"sv, "a zip archive, as .npz files are"},
                                 FileMagic{0, "\x1f\x8b\x08"sv, "packed by gzip"},
                                 FileMagic{0, "\x89HDF\r\n\x1a\n"sv, "an HDF5 file"},
                                 FileMagic{0, "\x89PNG\r\n\x1a\n"sv, "a PNG file"},
                                 FileMagic{0, "\xff\xd8\xff"sv, "a JPEG file"},
                                 FileMagic{8, "WEBP"sv, "a WebP file"},
                                 FileMagic{0, "GIF8"sv, "a GIF file"},
                                 FileMagic{0, "II*\0"sv, "a TIFF file"},
                                 FileMagic{0, "MM\0*"sv, "a TIFF file"},
                                 FileMagic{4, "ftypavif"sv, "an AVIF file"},
                                 FileMagic{4, "ftyphei"sv, "an HEIC file"},
                                 FileMagic{4, "ftypmif1"sv, "an HEIC file"},
                                 FileMagic{0, "%PDF"sv, "a PDF"},
                                 FileMagic{0, "version https://git-lfs"sv, "a pointer of git-lfs, not yet the file: git lfs pull"}};

// Whether the text has this word, in letters of any size, after blanks.
bool begins_with_tag(std::string_view text, std::string_view tag) {
  const std::size_t at = text.find_first_not_of(" \t\r\n");
  if (at == std::string_view::npos || text.size() - at < tag.size()) return false;
  return std::equal(tag.begin(), tag.end(), text.begin() + static_cast<std::ptrdiff_t>(at),
                    [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b + 32) : b); });
}

}  // namespace

bool reads_as_text(std::string_view start) {
  constexpr std::size_t kLeast = 32;
  if (start.size() < kLeast) return false;
  for (std::size_t i = 0; i < start.size();) {
    const std::size_t n = utf8_length(start, i);
    if (n == 0) return start.size() - i < 4 && i > 0;  // a character that is cut off at the end
    if (n == 1 && is_control(start, i, n) && std::string_view("\t\n\r\f").find(start[i]) == std::string_view::npos) return false;
    i += n;
  }
  return true;
}

std::string likely_kind(std::string_view start) {
  if (start.empty()) return "; it is empty";
  for (const FileMagic& kind : kFileMagics)
    if (start.size() > kind.at && start.substr(kind.at).starts_with(kind.magic)) return "; it is " + std::string(kind.name);
  if (start.starts_with("BM") && start.size() > 14 && start.substr(6, 4) == "\0\0\0\0"sv) return "; it is a BMP file";
  for (const char* tag : {"<!doctype html", "<html"})
    if (begins_with_tag(start, tag)) return "; it is an HTML page, such as a server's answer";
  return reads_as_text(start) ? "; it is a text" : "";
}

}  // namespace motley
