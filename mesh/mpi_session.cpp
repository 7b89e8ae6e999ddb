// SPDX-License-Identifier: Apache-2.0
#include "mesh/mpi_session.h"

#include <motley/mpi.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "mesh/backoff.h"
#include "mesh/mpi_check.h"

namespace motley {

namespace {

constexpr auto kRest = std::chrono::milliseconds(200);  // longer than ranks leave a barrier one after another

// By the launcher's word; where it says nothing they may be.
bool on_several_hosts() {
  int size = 1;
  mpi_check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  const char* here = std::getenv("MPI_LOCALNRANKS");
  return size > 1 && (here == nullptr || std::atoi(here) < size);
}

// In MPI_Finalize UCX closes a TCP connection with a PUT that the other end has to answer, then waits in the process manager's barrier,
// where it answers nothing (MPICH 4.0, UCX 1.13). A rank that answers from here, before it sends its own, lets the other end go there too
// early, and then waits for ever. So no rank makes an MPI call while others may be in MPI_Finalize already.
void come_to_rest() {
  MPI_Request all_here = MPI_REQUEST_NULL;
  mpi_check(MPI_Ibarrier(MPI_COMM_WORLD, &all_here), "MPI_Ibarrier");
  Backoff backoff(false);
  for (int done = 0; done == 0; backoff.pause()) mpi_check(MPI_Test(&all_here, &done, MPI_STATUS_IGNORE), "MPI_Test");
  std::this_thread::sleep_for(kRest);
}

}  // namespace

MpiSession::MpiSession(int& argc, char**& argv) {
  int already = 0;
  mpi_check(MPI_Initialized(&already), "MPI_Initialized");
  if (already != 0) return;
  // Whoever aborts has said why; MPICH's own line would only hide it.
  if (setenv("MPIR_CVAR_SUPPRESS_ABORT_MESSAGE", "1", 0) != 0) throw DeviceError("setenv failed");
  int level = MPI_THREAD_SINGLE;
  mpi_check(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread");
  ours_ = true;
  if (level < MPI_THREAD_FUNNELED) throw DeviceError("MPI_Init_thread: this MPI does not offer MPI_THREAD_FUNNELED");
}

std::unique_ptr<Transport> MpiSession::transport() const {
  return mpi_transport(MPI_COMM_WORLD);
}

void MpiSession::finish() {
  if (!ours_) return;
  if (on_several_hosts()) come_to_rest();
  mpi_check(MPI_Finalize(), "MPI_Finalize");
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
