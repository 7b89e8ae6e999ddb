// SPDX-License-Identifier: Apache-2.0
// How much memory the ranks of a host can still allocate together.
#pragma once
#include <motley/transport.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace motley {

// One limit for this process: the machine's, or that of a control group. Ranks with the same `id` on one machine share it.
struct MemoryLimit {
  std::uint64_t id = 0;    // 0: the machine's; for a group: identifies its directory
  std::uint64_t free = 0;  // bytes: MemAvailable; or the limit minus what the group uses except for file pages it can drop
  std::string name{};      // for people
};

struct MemoryReading {
  std::string machine{};  // the same for all processes of one machine
  std::string host{};     // for people
  std::vector<MemoryLimit> limits{};
};

// From /proc/meminfo and every control group from this process's up to the root, version 2 and 1. `root`: root of the file tree
// that is read (tests have their own). What cannot be read sets no limit.
MemoryReading read_memory(const std::filesystem::path& root = "/");
// The least of the limits; the greatest number if there is none.
std::uint64_t free_bytes(const MemoryReading& reading);

// Collective, before any rank allocates. bytes: what this rank is about to allocate of its host's memory. DeviceError on all ranks,
// with the same text, if the ranks under one limit together need more than it leaves.
void check_host_memory(Transport& transport, std::uint64_t bytes, const MemoryReading& reading);

}  // namespace motley
