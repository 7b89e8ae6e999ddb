// SPDX-License-Identifier: Apache-2.0
// This machine's CPU, and the ISA of our loops that a device uses.
#pragma once
#include <motley/device.h>

#include "kernels/loops/loops.h"

namespace motley::cpu {

// The widest ISA for which our loops are compiled, that this CPU has, and that `cap` (one of isa_names(); empty: no cap) allows.
// DeviceError: an unknown name.
Simd simd_within(const std::string& cap);
const Loops& loops_of(Simd simd);      // the CPU must have this ISA
const std::string& isa_of(Simd simd);  // as in isa_names()

std::string cpu_model();                   // "AMD EPYC ..."
Index host_memory_bytes();                 // total memory
void check_threads(const Device& device);  // DeviceError: no threads

}  // namespace motley::cpu
