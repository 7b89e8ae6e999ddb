// SPDX-License-Identifier: Apache-2.0
#include "run/memory_with.h"

#include <motley/error.h>

#include <algorithm>
#include <cstdlib>

namespace motley {

std::shared_ptr<std::byte> memory_with(std::span<const std::byte> values, const std::string& name, DeviceMemory* device) {
  if (device != nullptr) {
    DeviceMemory::Block there;
    try {
      there = device->allocate(std::max<std::size_t>(values.size(), 1));
    } catch (const DeviceError& e) {
      throw DeviceError(std::string(e.what()) + " for \"" + name + "\"; give this rank a smaller part");
    }
    copy_and_wait(*device, there.get(), values.data(), values.size());
    return there;
  }
  const std::size_t bytes = (values.size() + 127) / 64 * 64;
  std::shared_ptr<std::byte> here(static_cast<std::byte*>(std::aligned_alloc(64, bytes)), std::free);
  if (here == nullptr) throw DeviceError("no memory for \"" + name + "\": " + std::to_string(values.size()) + " bytes");
  std::copy(values.begin(), values.end(), here.get());
  return here;
}

}  // namespace motley
