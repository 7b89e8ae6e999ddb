// SPDX-License-Identifier: Apache-2.0
// The use of MPI in this process, for code that does not include mpi.h.
#pragma once
#include <motley/transport.h>

#include <memory>
#include <string>

namespace motley {

// Initialises MPI (FUNNELED) unless it is initialised already; only then it also finalises it.
class MpiSession {
 public:
  MpiSession(int& argc, char**& argv);
  ~MpiSession() = default;  // does not finalise: an exception may be in flight
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
  std::unique_ptr<Transport> transport() const;  // over all ranks
  // Collective, after the transport is destroyed and all ranks agreed to end.
  void finish();
  // Ends all ranks with this code, without unwinding; by MPI_Abort, or end_others() where MPI does not run yet or any more.
  [[noreturn]] static void abort(int code) noexcept;
  // For a thread that may make no MPI call: sends MPICH's process manager the message of MPI_Abort, after which the manager ends
  // the ranks of all hosts with this code, stopped ones too. This process has to end by itself.
  static void end_others(int code) noexcept;

 private:
  bool ours_ = false;
};

// "MPICH 4.0.2". May be called at any time.
std::string mpi_version();
// Whether this MPI library takes the memory of CUDA devices, queried at run time; a library that cannot be queried does not. If MPI
// has not been initialised a child process queries: call it there before threads are started and devices opened.
bool mpi_takes_device_memory();

}  // namespace motley
