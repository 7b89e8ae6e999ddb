// SPDX-License-Identifier: Apache-2.0
// What one rank drives. mesh places it, kernels open it.
#pragma once
#include <motley/dims.h>

#include <memory>
#include <string>
#include <vector>

namespace motley {

enum class DeviceKind : std::uint8_t { cpu, cuda, emulated };

struct Device {
  std::string name{};                         // unique in its mesh; `rank N` when the file gives none
  std::string host{};                         // empty: this machine
  std::string isa{};                          // cap of what CPU kernels may use: sse41, avx, avx2, avx512_core, ...; empty: all
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;                              // of the GPU on its host
  int threads = 1;
  std::vector<int> cores{};                   // empty: the host's allowed cores in turn
  Index memory_bytes = 0;                     // 0: what the device says
  std::shared_ptr<const Device> of{};         // emulated: this one made slower
  double slowdown = 1.0;                      // emulated: at least 1
  bool tf32 = false;                          // cuda: f32 products on tensor cores, with about 10 bits of mantissa
  bool deterministic = true;                  // cuda: no kernel whose sums' order varies from run to run
};

std::string to_string(DeviceKind kind);
// What really computes: an emulated device is another one made slower.
const Device& driven(const Device& device);
// Its kernels' operands lie where the host cannot reach: a CUDA device, or one made slower.
bool has_own_memory(const Device& device);
// The names `isa` may have, slowest first: sse41 avx avx2 avx2_vnni avx512_core avx512_core_vnni avx512_core_bf16
const std::vector<std::string>& isa_names();

}  // namespace motley
