// SPDX-License-Identifier: Apache-2.0
// Searches for values that are not finite. bytes: of the whole buffer, where the host can read them.
#pragma once
#include <motley/program.h>

namespace motley {

bool is_finite(const Program& program, int buffer, const std::byte* bytes);
// Whether what the kernel wrote into this result's buffer, and only that, is finite.
bool is_finite(const Program& program, const RunKernel& run, std::size_t operand, const std::byte* bytes);

}  // namespace motley
