// SPDX-License-Identifier: Apache-2.0
// The processes of one launch on this host, identified by an environment variable that only they have.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace motley {

// All processes of this user whose environment contains `NAME=value`.
std::vector<pid_t> processes_with(const std::string& variable);

// The ranks that this mpiexec has started on this host so far, by number: its grandchildren, as listed by Linux.
std::map<int, pid_t> ranks_below(pid_t mpiexec);

// Ends these processes at once: first stops all of them, so that none starts another, then kills them. Waits until they have ended,
// 5 s at most; false: some have not.
bool end_processes_with(const std::string& variable);

// Has Linux drop every connection to a port on which this child listens; those that exist stay. mpiexec listens on all addresses
// for as long as it lives, for its helpers of other hosts, and ends when anybody else connects. process: its pidfd. Does nothing
// where Linux (before 5.6) or its settings do not allow it.
void drop_new_connections(int process, pid_t pid);

// Ranks that die while MPI starts leave its shared memory in /dev/shm (later it has no name). Unlinks those segments of MPICH and
// UCX that this user has made since `since` and that no process has open or mapped.
void remove_orphan_segments(std::chrono::system_clock::time_point since);

}  // namespace motley
