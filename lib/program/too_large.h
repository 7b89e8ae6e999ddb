// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/program.h>

#include <string>

namespace motley {

// The first buffer that ends after `room` bytes of the arena, and the five largest: for the error that says there is not enough
// memory.
std::string too_large(const Program& program, Index room);

inline constexpr const char* kLess = "use a smaller batch, give this rank a smaller part, or give its device more memory_bytes";
// "100 bytes for a step (...), the mesh gives it 90; ...": what the Program needs with this workspace, for what, and what to
// change.
std::string not_enough(const Program& program, Index workspace, Index has, const std::string& source);

}  // namespace motley
