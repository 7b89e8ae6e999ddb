// SPDX-License-Identifier: Apache-2.0
// oneDNN, and our own loops where it has none.
#pragma once
#include <motley/backend.h>

namespace motley {

// Caps this process's ISA and threads first thing. DeviceError: an unknown ISA, or one that could not be set.
std::unique_ptr<Backend> open_cpu_backend(const Device& device);

}  // namespace motley
