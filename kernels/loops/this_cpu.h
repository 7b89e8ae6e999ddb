// SPDX-License-Identifier: Apache-2.0
// What this machine's CPU is, and which of our ISAs a device takes of it.
#pragma once
#include <motley/device.h>

#include "kernels/loops/loops.h"

namespace motley::cpu {

// The widest ISA that our loops are compiled for, this CPU has, and `cap` (one of isa_names(); empty: no cap) allows.
// DeviceError: an unknown name.
Simd simd_within(const std::string& cap);
const Loops& loops_of(Simd simd);      // must be one that this CPU has
const std::string& isa_of(Simd simd);  // as in isa_names()

std::string cpu_model();                   // "AMD EPYC ..."
Index host_memory_bytes();                 // all of it
void check_threads(const Device& device);  // DeviceError: none

}  // namespace motley::cpu
