// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <mpi.h>

namespace motley {

// Throws the error of an MPI call that did not return MPI_SUCCESS: DeviceError, or InternalError for a truncated message.
void mpi_check(int code, const char* call);

}  // namespace motley
