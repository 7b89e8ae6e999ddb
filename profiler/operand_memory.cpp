// SPDX-License-Identifier: Apache-2.0
#include "profiler/operand_memory.h"

#include <motley/error.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>

#include "kernels/operands.h"

namespace motley {

namespace {

// Rounded up to the next cache line and one more, so that rows of two operands are not a multiple of 4096 bytes apart.
std::size_t in_lines(Index bytes) {
  return (static_cast<std::size_t>(bytes) + 127) / 64 * 64;
}

}  // namespace

OperandMemory::Block OperandMemory::block_of(const OperandUse& use) {
  return use.written ? kResults : use.dtype == DType::i32 ? kLabels : kNumbers;
}

std::size_t OperandMemory::bytes_of(const KernelSpec& spec) {
  std::size_t bytes = 0;
  for (const OperandUse& use : operands_of(spec)) bytes += in_lines(use.bytes());
  return bytes;
}

void OperandMemory::reserve(const KernelSpec& spec, std::size_t workspace_bytes) {
  std::array<std::size_t, kBlocks> bytes{};
  for (const OperandUse& use : operands_of(spec)) bytes[block_of(use)] += in_lines(use.bytes());
  bytes[kWorkspace] = workspace_bytes;
  for (std::size_t b = 0; b < kBlocks; b++) most_[b] = std::max(most_[b], bytes[b]);
}

void OperandMemory::wander(std::size_t step_bytes) {
  wanders_ = step_bytes > 0;
  for (Block b : {kNumbers, kResults}) most_[b] = std::max(most_[b], step_bytes / 2 / 64 * 64);
}

std::size_t OperandMemory::bytes() const {
  return std::accumulate(most_.begin(), most_.end(), std::size_t{0});
}

void OperandMemory::allocate(DeviceMemory* device) {
  for (std::size_t b = 0; b < kBlocks; b++) {
    blocks_[b].reset(static_cast<std::byte*>(std::aligned_alloc(4096, (most_[b] / 4096 + 1) * 4096)), std::free);
    if (!blocks_[b]) throw DeviceError("cannot allocate " + std::to_string(bytes()) + " bytes for the operands of kernels to time");
  }
  constexpr std::size_t kPeriod = 65537;  // a prime, so that operands of usual sizes begin at different numbers
  std::mt19937 random(1);
  auto* numbers = reinterpret_cast<float*>(blocks_[kNumbers].get());
  for (std::size_t i = 0; i < most_[kNumbers] / 4; i++)
    numbers[i] = i < kPeriod ? 0.5F + static_cast<float>(random() >> 8) * 0x1p-24F : numbers[i - kPeriod];
  auto* results = reinterpret_cast<float*>(blocks_[kResults].get());
  std::fill_n(results, most_[kResults] / 4, 1.0F);
  auto* labels = reinterpret_cast<std::int32_t*>(blocks_[kLabels].get());
  for (std::size_t i = 0; i < most_[kLabels] / 4; i++) labels[i] = static_cast<std::int32_t>(i % 8);
  if (device == nullptr) return;
  for (std::size_t b = 0; b < kBlocks; b++) {
    DeviceMemory::Block there = device->allocate(most_[b] + 1);
    if (b != kWorkspace) copy_and_wait(*device, there.get(), blocks_[b].get(), most_[b]);
    blocks_[b] = std::move(there);
  }
}

std::vector<void*> OperandMemory::operands(const KernelSpec& spec) {
  const std::vector<OperandUse> uses = operands_of(spec);
  std::array<std::size_t, kBlocks> needs{};
  for (const OperandUse& use : uses) needs[block_of(use)] += in_lines(use.bytes());
  for (std::size_t b = 0; b < kBlocks; b++)
    if (!wanders_ || next_[b] + needs[b] > most_[b]) next_[b] = 0;
  std::vector<void*> out;
  for (const OperandUse& use : uses) {
    const Block b = block_of(use);
    out.push_back(blocks_[b].get() + next_[b]);
    next_[b] += in_lines(use.bytes());
  }
  return out;
}

}  // namespace motley
