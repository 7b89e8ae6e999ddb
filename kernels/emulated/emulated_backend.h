// SPDX-License-Identifier: Apache-2.0
// A real device made slower by a factor, so that unequal devices can be had on equal hardware.
#pragma once
#include <motley/backend.h>

namespace motley {

// slowdown: at least 1. memory_bytes: the emulated device's own limit, 0: the inner one's.
std::unique_ptr<Backend> emulated_backend(std::unique_ptr<Backend> inner, double slowdown, Index memory_bytes = 0);

}  // namespace motley
