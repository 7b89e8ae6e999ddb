// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/program.h>

#include <string>

namespace motley {

// The first buffer that ends after `room` bytes of the arena, and the five largest: for the error that says there is not enough
// memory.
std::string too_large(const Program& program, Index room);

}  // namespace motley
