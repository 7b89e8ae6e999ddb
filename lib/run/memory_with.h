// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/backend.h>

#include <memory>
#include <span>
#include <string>

namespace motley {

// Memory initialised with these bytes, on the host (64-byte aligned) or on the device. DeviceError, with the name: there is not
// enough.
std::shared_ptr<std::byte> memory_with(std::span<const std::byte> values, const std::string& name, DeviceMemory* device);

}  // namespace motley
