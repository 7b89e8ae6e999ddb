// SPDX-License-Identifier: Apache-2.0
/// @file
/// The one public header that includes mpi.h.
#pragma once
#include <motley/transport.h>
#include <mpi.h>

namespace motley {
/// @addtogroup running
/// @{

/// A transport over the ranks of a communicator, for programs that run MPI themselves: `Runtime rt(mpi_transport(comm))`.
/// Collective. Duplicates the communicator; neither initialises nor finalises MPI. UserError: MPI was initialised below
/// MPI_THREAD_FUNNELED.
std::unique_ptr<Transport> mpi_transport(MPI_Comm comm);

/// @}
}  // namespace motley
