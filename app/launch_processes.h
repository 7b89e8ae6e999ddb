// SPDX-License-Identifier: Apache-2.0
// The processes of one launch on this host, found by a variable that only they have.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace motley {

// All of this user's processes whose environment holds `NAME=value`.
std::vector<pid_t> processes_with(const std::string& variable);

// The ranks that this mpiexec has started on this host so far, by number: its grandchildren, as Linux lists them.
std::map<int, pid_t> ranks_below(pid_t mpiexec);

// Ends them at once and for good: stops them all first, so that none starts another, then kills. Waits until they are gone,
// 5 s at most; false: some are not.
bool end_processes_with(const std::string& variable);

// Ranks that die while MPI starts leave its shared memory in /dev/shm (later it has no name). Unlinks those segments of MPICH
// and UCX that this user made since then and no process has open or mapped.
void remove_orphan_segments(std::chrono::system_clock::time_point since);

}  // namespace motley
