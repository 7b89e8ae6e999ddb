// SPDX-License-Identifier: Apache-2.0
#include "mesh/mpi_session.h"

#include <motley/mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "mesh/mpi_check.h"

namespace motley {

MpiSession::MpiSession(int& argc, char**& argv) {
  int already = 0;
  mpi_check(MPI_Initialized(&already), "MPI_Initialized");
  if (already != 0) return;
  // Whoever aborts has said why; MPICH's own line would only hide it.
  if (setenv("MPIR_CVAR_SUPPRESS_ABORT_MESSAGE", "1", 0) != 0) throw DeviceError("setenv failed");
  // Behind a PUT, UCX over TCP closes a connection by one more PUT that the other end has to answer; in MPI_Finalize that one may
  // already stand in the process manager's barrier, where it answers nothing, and both wait for ever (seen with UCX 1.13, MPICH 4.0).
  if (setenv("UCX_TCP_PUT_ENABLE", "n", 0) != 0) throw DeviceError("setenv failed");
  int level = MPI_THREAD_SINGLE;
  mpi_check(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread");
  ours_ = true;
  if (level < MPI_THREAD_FUNNELED) throw DeviceError("MPI_Init_thread: this MPI does not offer MPI_THREAD_FUNNELED");
}

std::unique_ptr<Transport> MpiSession::transport() const {
  return mpi_transport(MPI_COMM_WORLD);
}

void MpiSession::finish() {
  if (ours_) mpi_check(MPI_Finalize(), "MPI_Finalize");
  ours_ = false;
}

void MpiSession::abort(int code) noexcept {
  std::fflush(nullptr);
  int begun = 0, over = 0;
  const bool runs = MPI_Initialized(&begun) == MPI_SUCCESS && begun != 0 && MPI_Finalized(&over) == MPI_SUCCESS && over == 0;
  // MPI_Abort does not return; should it, the process still ends and mpiexec ends the others.
  if (runs && MPI_Abort(MPI_COMM_WORLD, code) != MPI_SUCCESS) std::fputs("motley: MPI_Abort failed\n", stderr);
  _exit(code);
}

}  // namespace motley
