// SPDX-License-Identifier: Apache-2.0
// What a file that was refused seems to be, by its first bytes: "; it is a .npy file".
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace motley {

constexpr std::size_t kKindBytes = 256;  // of the file's start, as many as it has

// Begins with "; it is "; empty: not known.
std::string likely_kind(std::string_view start);

// Whether these bytes, the file's first ones, are characters of a text and there are at least 32 of them.
bool reads_as_text(std::string_view start);

}  // namespace motley
