// SPDX-License-Identifier: Apache-2.0
/// @file
/// What one rank drives. A Mesh places it, a Backend computes on it.
#pragma once
#include <motley/dims.h>

#include <memory>
#include <string>
#include <vector>

namespace motley {
/// @addtogroup machines
/// @{

/// What computes. emulated: another device, slowed down. modelled: a device that is not here, described by numbers; plans are made
/// for it, nothing runs on it.
enum class DeviceKind : std::uint8_t { cpu, cuda, emulated, modelled };

/// What is known of a modelled device. A kernel takes launch_seconds + max(flops / (flops_per_second * efficiency), bytes /
/// memory_bytes_per_second), where extents are rounded up to the granules and bytes are those of its operands.
struct DeviceNumbers {
  /// Multiples in which a kernel's extents take time: 17 filters take as long as 24 where the granule is 8.
  struct Granules {
    Index filters = 1;   ///< of a convolution or dense layer
    Index channels = 1;  ///< likewise; of a depthwise convolution its groups
    Index batch = 1;     ///< samples
    Index rows = 1;      ///< of a convolution's output
  };
  /// Parts of flops_per_second that kernels reach where memory is not the limit.
  struct Efficiency {
    double conv2d = 0.7;      ///< convolutions
    double depthwise = 0.15;  ///< convolutions with one channel per group
    double dense = 0.7;       ///< dense layers and attention
    double map = 1;           ///< pools and all else
  };
  double flops_per_second = 0;         ///< above 0; a multiply-add counts 2
  double memory_bytes_per_second = 0;  ///< above 0
  double launch_seconds = 0;           ///< of any kernel
  Index cache_bytes = 0;               ///< 0: not known; no prediction uses it yet
  Granules granules{};                 ///< of extents
  Efficiency efficiency{};             ///< of kernels
};

/// One rank's device, as a mesh file describes it.
struct Device {
  std::string name{};                  ///< unique in its mesh; `rank N` when the file gives none
  std::string host{};                  ///< empty: this machine
  std::string isa{};                   ///< cap of what CPU kernels may use: one of isa_names(); empty: all that the CPU has
  std::string library{};               ///< for a CPU's contractions: one of cpu_library_names(); empty: the first that is built
  DeviceKind kind = DeviceKind::cpu;   ///< what computes
  int index = 0;                       ///< number of the GPU on its host
  int threads = 1;                     ///< that a CPU's kernels use
  std::vector<int> cores{};            ///< that the rank is bound to; empty: the host's allowed cores in turn
  Index memory_bytes = 0;              ///< memory limit of a step; 0: what the device reports
  std::shared_ptr<const Device> of{};  ///< emulated: the device that is made slower
  double slowdown = 1.0;               ///< emulated: how many times slower, from 1 to 1e6 (in a mesh file to 1000)
  bool tf32 = false;                   ///< cuda: f32 products on tensor cores, with about 10 bits of mantissa
  bool deterministic = true;           ///< cuda: no kernel whose order of additions varies from run to run
  std::shared_ptr<const DeviceNumbers> numbers{};  ///< modelled: what is known of it
};

std::string to_string(DeviceKind kind);  ///< As in mesh files: `cpu`.
/// The device that really computes: an emulated device's `of`, any other device itself.
const Device& driven(const Device& device);
/// Whether kernel operands are in memory that the host cannot address: a CUDA device, or an emulated one that slows a CUDA device
/// down; a modelled device.
bool has_own_memory(const Device& device);
/// The names that `isa` may have, slowest first: generic sse41 avx avx2 avx2_vnni avx512_core avx512_core_vnni avx512_core_bf16
const std::vector<std::string>& isa_names();
/// The names that `library` may have; by default the first one that is built is used: onednn eigen
const std::vector<std::string>& cpu_library_names();
/// Those of cpu_library_names() that are built; a CPU device that names no library uses the first.
const std::vector<std::string>& cpu_libraries();

/// @}
}  // namespace motley
