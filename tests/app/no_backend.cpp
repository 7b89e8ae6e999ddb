// SPDX-License-Identifier: Apache-2.0
// For tests of Runtime that open no device.
#include <motley/backend.h>
#include <motley/error.h>

namespace motley {
std::unique_ptr<Backend> open_backend(const Device& device) {
  throw DeviceError("this test has no " + to_string(device.kind));
}
}  // namespace motley
