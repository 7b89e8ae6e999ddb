// SPDX-License-Identifier: Apache-2.0
// A real device slowed down by a factor, to have unequal devices on equal hardware.
#pragma once
#include <motley/backend.h>

#include <string>

namespace motley {

// slowdown: at least 1. memory_bytes: the emulated device's limit, 0: that of the inner device.
std::unique_ptr<Backend> emulated_backend(std::unique_ptr<Backend> inner, double slowdown, Index memory_bytes = 0);

// The model of a device slowed down: "AMD EPYC, 3 times slower".
std::string slowed_model(const std::string& model, double slowdown);

}  // namespace motley
