// SPDX-License-Identifier: Apache-2.0
// How much memory the ranks of a host may still take together.
#pragma once
#include <motley/transport.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace motley {

// One limit that this process is under: the machine's, or that of a control group. Ranks with one `id` on one machine share it.
struct MemoryLimit {
  std::uint64_t id = 0;    // 0: the machine's; of a group: which directory it is
  std::uint64_t free = 0;  // bytes: MemAvailable; or the limit minus what the group has in use but for the file pages it can drop
  std::string name{};      // for people
};

struct MemoryReading {
  std::string machine{};  // the same for all processes of one machine
  std::string host{};     // for people
  std::vector<MemoryLimit> limits{};
};

// By /proc/meminfo and every control group from this process's own up to the root, version 2 and 1. `root`: of the tree that is
// read (tests have their own). What cannot be read limits nothing.
MemoryReading read_memory(const std::filesystem::path& root = "/");
// The least of the limits; the greatest number where there is none.
std::uint64_t free_bytes(const MemoryReading& reading);

// Collective, before anyone allocates. bytes: what this rank is about to take of its host's memory. DeviceError on all ranks, the
// same text, where the ranks under one limit need more together than it leaves.
void check_host_memory(Transport& transport, std::uint64_t bytes, const MemoryReading& reading);

}  // namespace motley
