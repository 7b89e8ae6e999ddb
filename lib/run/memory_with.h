// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/backend.h>

#include <memory>
#include <span>
#include <string>

namespace motley {

// Memory that begins with these bytes, of the host (64-byte aligned) or of the device. DeviceError, with the name: there is none.
std::shared_ptr<std::byte> memory_with(std::span<const std::byte> values, const std::string& name, DeviceMemory* device);

}  // namespace motley
