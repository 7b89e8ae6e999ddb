// SPDX-License-Identifier: Apache-2.0
// oneDNN, and our own loops where oneDNN has no kernel.
#pragma once
#include <motley/backend.h>

namespace motley {

// First caps this process's ISA and threads. DeviceError: an unknown ISA, or one that could not be set.
std::unique_ptr<Backend> open_cpu_backend(const Device& device);

}  // namespace motley
