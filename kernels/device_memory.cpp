// SPDX-License-Identifier: Apache-2.0
#include <motley/backend.h>

#include <chrono>
#include <thread>

namespace motley {

void copy_and_wait(DeviceMemory& device, void* to, const void* from, std::size_t bytes) {
  const auto done = device.make_mark();
  device.copy(DeviceMemory::Queue::compute, to, from, bytes);
  done->set(DeviceMemory::Queue::compute);
  while (!done->passed()) std::this_thread::sleep_for(std::chrono::microseconds(10));
}

}  // namespace motley
