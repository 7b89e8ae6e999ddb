// SPDX-License-Identifier: Apache-2.0
// MPI's life in this process, for code that does not see mpi.h.
#pragma once
#include <motley/transport.h>

#include <memory>

namespace motley {

// Initialises MPI (FUNNELED) where no one has, and then also finalises it.
class MpiSession {
 public:
  MpiSession(int& argc, char**& argv);
  ~MpiSession() = default;  // does not finalise: an exception may be on its way
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
  std::unique_ptr<Transport> transport() const;  // over all ranks
  // Collective, after the transport is gone and all ranks agreed to end.
  void finish();
  // Ends all ranks with this code, without unwinding anything. Where MPI does not run yet or any more, mpiexec sees to the
  // others.
  [[noreturn]] static void abort(int code) noexcept;
  // For a thread that may make no MPI call: what MPI_Abort says to MPICH's process manager, which then ends the ranks of all hosts
  // with this code, stopped ones too. This process has to end by itself.
  static void end_others(int code) noexcept;

 private:
  bool ours_ = false;
};

// Whether this MPI library takes the memory of CUDA devices, asked at run time; one that cannot be asked does not. Where MPI has
// not been initialised a child process asks: call it there before threads are started and devices opened.
bool mpi_takes_device_memory();

}  // namespace motley
