// SPDX-License-Identifier: Apache-2.0
// A real device slowed down by a factor, to have unequal devices on equal hardware.
#pragma once
#include <motley/backend.h>

namespace motley {

// slowdown: at least 1. memory_bytes: the emulated device's limit, 0: that of the inner device.
std::unique_ptr<Backend> emulated_backend(std::unique_ptr<Backend> inner, double slowdown, Index memory_bytes = 0);

}  // namespace motley
