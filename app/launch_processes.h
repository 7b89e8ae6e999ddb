// SPDX-License-Identifier: Apache-2.0
// The processes of one launch on this host, found by a variable that only they have.
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace motley {

// All of this user's processes whose environment holds `NAME=value`.
std::vector<pid_t> processes_with(const std::string& variable);

// Ends them at once and for good: stops them all first, so that none starts another, then kills, and unlinks the shared
// memory of MPICH and UCX that they would leave in /dev/shm. Waits until they are gone, 5 s at most; false: some are not.
bool end_processes_with(const std::string& variable);

}  // namespace motley
