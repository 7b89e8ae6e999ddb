// SPDX-License-Identifier: Apache-2.0
// A transport that takes a device's own memory, as an MPI library may: the device's copy queue fetches what is sent and puts down
// what arrives, at once and after nothing else. A rank that sends before a kernel has written sends other bytes in some seed of the
// fake device.
#pragma once
#include <motley/backend.h>
#include <motley/transport.h>

namespace motley::testing {

std::unique_ptr<Transport> with_device_memory(Transport& inner, DeviceMemory& device);

}  // namespace motley::testing
