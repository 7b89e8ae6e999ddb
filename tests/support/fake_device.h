// SPDX-License-Identifier: Apache-2.0
// A device that is none: the kernels of another backend, run late and in memory that nothing else can touch. So what an executor
// does with a real device's memory and queues is held by the laws on any machine.
#pragma once
#include <motley/backend.h>

#include <cstdint>

namespace motley::testing {

// What the two queues were given is done when somebody asks a mark whether it has passed, the queues' works taken in turns
// determined by the seed, each turn as far as holds allow: a copy that does not wait for what it needs finds other bytes in some
// seed. Device memory is readable and writable only while a kernel or a copy of this device runs: any other access ends the process
// (SIGSEGV). memory_bytes: allocate() refuses more; 0: any. choices: a convolution has so many implementations, "3 runs", "2 runs",
// "1 runs", which repeat the other backend's kernel: the one that the device takes by itself is the slowest.
std::unique_ptr<Backend> fake_device(std::unique_ptr<Backend> inner, std::uint64_t seed, Index memory_bytes = 0, int choices = 1);

}  // namespace motley::testing
