// SPDX-License-Identifier: Apache-2.0
// What MPI needs of /dev/shm while the ranks of a host start: without it MPICH and UCX end the process with a stack trace.
#pragma once
#include <optional>
#include <string>

namespace motley {

// Of a file system; all that this process may use of it.
struct SharedSpace {
  std::string error{};  // it is not there, or cannot be written to: why
  double total_bytes = 0, free_bytes = 0;
  std::optional<double> total_files{}, free_files{};  // none: no limit
};

SharedSpace shared_space(const std::string& path = "/dev/shm");

// What is wrong and what to change, in one sentence; empty: so many ranks of this host can start. begun: how many of them may
// already have what they need.
std::string shared_space_fault(const SharedSpace& space, int ranks, int begun = 0);

// The same for this process, one of the ranks that MPICH's mpiexec starts on this host (MPI_LOCALNRANKS). Called before MPI_Init.
// DeviceError: it would fail.
void require_shared_space();

}  // namespace motley
