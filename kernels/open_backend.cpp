// SPDX-License-Identifier: Apache-2.0
#include <motley/backend.h>
#include <motley/error.h>

#include "kernels/cuda_module.h"
#include "kernels/emulated/emulated_backend.h"
#include "kernels/open_cpu.h"

namespace motley {

namespace {

std::unique_ptr<Backend> open_emulated(const Device& device) {
  Device real = *device.of;
  if (real.name.empty()) real.name = device.name;  // errors name it
  return emulated_backend(open_backend(real), device.slowdown, device.memory_bytes);
}

}  // namespace

std::unique_ptr<Backend> open_backend(const Device& device) {
  switch (device.kind) {
    case DeviceKind::cpu: return open_cpu(device);
    case DeviceKind::emulated:
      if (!device.of)
        throw DeviceError("device \"" + device.name + "\" is emulated, but \"of\" does not say which device it slows down");
      return open_emulated(device);
    case DeviceKind::cuda: return open_cuda_backend(device);
    case DeviceKind::modelled:
      throw DeviceError("device \"" + device.name + "\" is modelled: it is not here, and nothing runs on it");
  }
  throw InternalError("an unknown kind of device");
}

}  // namespace motley
