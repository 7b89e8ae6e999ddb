// SPDX-License-Identifier: Apache-2.0
// Characters of a text with arbitrary bytes.
#pragma once
#include <algorithm>
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

// The first `most` characters.
inline std::string first_characters(std::string_view text, std::size_t most) {
  std::size_t end = 0;
  for (; most > 0 && end < text.size(); most--) end += std::max<std::size_t>(1, utf8_length(text, end));
  return std::string(text.substr(0, end));
}

// Whether a terminal acts on the character of n bytes at i: the control characters, and those that change the direction of text.
inline bool is_control(std::string_view text, std::size_t i, std::size_t n) {
  const auto byte = [&](std::size_t k) { return static_cast<unsigned>(static_cast<unsigned char>(text[i + k])); };
  if (n == 2) return byte(0) == 0xC2 && byte(1) < 0xA0;
  if (n != 3) return n == 1 && (byte(0) < 32 || byte(0) == 127);
  const unsigned last = byte(2);
  if (byte(0) != 0xE2) return false;
  return byte(1) == 0x80 ? last == 0x8E || last == 0x8F || (last >= 0xAA && last <= 0xAE)
                         : byte(1) == 0x81 && last >= 0xA6 && last <= 0xA9;
}

// The text with control characters as blanks, except for those of `kept`, and bytes that are not valid UTF-8 as `invalid`; 0: as
// \xFF.
inline std::string without_controls(std::string_view text, std::string_view kept, char invalid) {
  constexpr const char* kDigits = "0123456789ABCDEF";
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t n = utf8_length(text, i);
    if (n == 0 && invalid == 0)
      out += {'\\', 'x', kDigits[static_cast<unsigned char>(text[i]) / 16], kDigits[static_cast<unsigned char>(text[i]) % 16]};
    else if (n == 0)
      out += invalid;
    else if (is_control(text, i, n) && kept.find(text[i]) == std::string_view::npos)
      out += ' ';
    else
      out += text.substr(i, n);
    i += n == 0 ? 1 : n;
  }
  return out;
}

// For one line of a message.
inline std::string printable(std::string_view text) {
  return without_controls(text, "", '?');
}

// Lines for a terminal.
inline std::string lines_of(std::string_view text) {
  return without_controls(text, "\n\r\t", 0);
}

// At most `most` characters; a longer text ends in "...".
inline std::string shortened(std::string_view text, std::size_t most) {
  if (text.size() <= most || characters(text, 0, text.size()) <= most) return std::string(text);
  return first_characters(text, most - std::min<std::size_t>(most, 3)) + "...";
}

}  // namespace motley
