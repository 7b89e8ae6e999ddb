// SPDX-License-Identifier: Apache-2.0
#include <motley/backend.h>
#include <motley/error.h>

#include <chrono>
#include <thread>

namespace motley {

void copy_and_wait(DeviceMemory& device, void* to, const void* from, std::size_t bytes) {
  constexpr std::chrono::seconds kDeadline{60};
  const auto done = device.make_mark();
  device.copy(DeviceMemory::Queue::compute, to, from, bytes);
  done->set(DeviceMemory::Queue::compute);
  const auto begin = std::chrono::steady_clock::now();
  while (!done->passed()) {
    if (std::chrono::steady_clock::now() - begin > kDeadline)
      throw DeviceError("the device has not finished a copy, and the kernels before it, after 60 s");
    std::this_thread::sleep_for(std::chrono::microseconds(10));
  }
}

std::unique_ptr<Kernel> Backend::compile_as(const KernelSpec& spec, const std::string& implementation) {
  auto kernel = compile(spec);
  if (kernel->implementation() == implementation) return kernel;
  throw DeviceError("the plan computes " + summary(spec) + " by \"" + implementation + "\", which " + model() + " with " +
                    library() +
                    " does not have; plan again with a profile of this device (motley profile, or \"measure\": \"always\")");
}

}  // namespace motley
