// SPDX-License-Identifier: Apache-2.0
// Characters of a text with arbitrary bytes.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace motley {

// Bytes of the character at `at` (1 to 4); 0: not valid UTF-8 (cut short, overlong, a surrogate, past U+10FFFF).
inline std::size_t utf8_length(std::string_view text, std::size_t at) {
  auto byte = [&](std::size_t i) { return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U; };
  const unsigned first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  const std::size_t n = first >= 0xC2 && first < 0xE0   ? 2
                        : first >= 0xE0 && first < 0xF0 ? 3
                        : first >= 0xF0 && first < 0xF5 ? 4
                                                        : 0;
  for (std::size_t i = 1; i < n; i++)
    if ((byte(i) & 0xC0U) != 0x80U) return 0;
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0)) return 0;
  if ((first == 0xF0 && second < 0x90) || (first == 0xF4 && second >= 0x90)) return 0;
  return n;
}

inline bool is_utf8(std::string_view text) {
  for (std::size_t i = 0, n = 0; i < text.size(); i += n)
    if (n = utf8_length(text, i); n == 0) return false;
  return true;
}

// Characters before byte `end`; a byte that is not valid UTF-8 counts as one.
inline std::size_t characters(std::string_view text, std::size_t begin, std::size_t end) {
  std::size_t count = 0;
  for (std::size_t i = begin; i < end && i < text.size(); count++) {
    const std::size_t n = utf8_length(text, i);
    i += n == 0 ? 1 : n;
  }
  return count;
}

// The text with control characters as blanks (a terminal would act on them) and bytes that are not valid UTF-8 as `?`.
inline std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t n = utf8_length(text, i);
    const unsigned first = static_cast<unsigned char>(text[i]);
    const bool control = first < 32 || first == 127 || (first == 0xC2 && n == 2 && static_cast<unsigned char>(text[i + 1]) < 0xA0);
    if (n == 0)
      out += '?';
    else if (control)
      out += ' ';
    else
      out += text.substr(i, n);
    i += n == 0 ? 1 : n;
  }
  return out;
}

// At most `most` characters; a longer text ends in "...".
inline std::string shortened(std::string_view text, std::size_t most) {
  if (text.size() <= most || characters(text, 0, text.size()) <= most) return std::string(text);
  std::size_t at = 0;
  for (std::size_t i = 0; i + 3 < most; i++) {
    const std::size_t n = utf8_length(text, at);
    at += n == 0 ? 1 : n;
  }
  return std::string(text.substr(0, at)) + "...";
}

}  // namespace motley
