// SPDX-License-Identifier: Apache-2.0
// The note in motley_cuda.so that says which motley it was built with: an ELF note, read before the module is loaded, since loading
// runs code.
#pragma once
#include <array>
#include <cstdint>

#include "base/version.h"

namespace motley {

constexpr std::array<char, 8> kNoteName{"motley"};  // padded to a multiple of 4, as notes are

struct ModuleNote {
  std::uint32_t name_bytes = 7, version_bytes = 32, type = 1;  // name_bytes: with the 0 at its end
  std::array<char, 8> name = kNoteName;
  std::array<char, 32> version{};
};

constexpr ModuleNote module_note() {
  ModuleNote out;
  for (std::size_t i = 0; kMotleyVersion[i] != 0 && i + 1 < out.version.size(); i++) out.version[i] = kMotleyVersion[i];
  return out;
}

}  // namespace motley
