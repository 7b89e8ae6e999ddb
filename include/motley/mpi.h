// SPDX-License-Identifier: Apache-2.0
// The one public header that includes mpi.h.
#pragma once
#include <motley/transport.h>
#include <mpi.h>

namespace motley {

// Duplicates the communicator; neither initialises nor finalises MPI. Needs MPI_THREAD_FUNNELED at least.
std::unique_ptr<Transport> mpi_transport(MPI_Comm comm);

}  // namespace motley
