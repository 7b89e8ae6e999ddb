// SPDX-License-Identifier: Apache-2.0
/// @file
/// One rank's life: from the start of MPI to the exit code that all ranks agree on.
#pragma once
#include <motley/backend.h>
#include <motley/mesh.h>
#include <motley/transport.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace motley {
/// @addtogroup running
/// @{

class RecordWriter;

/// One rank, one device. Used by one thread.
class Runtime {
 public:
  /// For a program that runs MPI itself: `Runtime rt(mpi_transport(comm))`. record: where phases are written, or nullptr; kind: the
  /// device's, if it is known before the device is opened.
  explicit Runtime(std::unique_ptr<Transport> transport, RecordWriter* record = nullptr, std::string kind = {});
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  int rank() const { return transport_->rank(); }   ///< this process's, from 0
  int ranks() const { return transport_->size(); }  ///< how many there are
  Transport& transport() { return *transport_; }    ///< to the other ranks
  /// This rank's device of the mesh, opened at the first call (before any other vendor call). UserError: the mesh has another
  /// number of ranks, or another device for this rank than at the first call. DeviceError: the device is not here.
  Backend& backend(const Mesh& mesh);
  /// A line on stdout, from rank 0 alone. Error (74): it cannot be written; not where the reader of a pipe has closed it.
  void print(const std::string& text) const;
  void phase(const std::string& text);  ///< Records what this rank is doing: reported when it dies or hangs.
  /// Whether this process got SIGINT or SIGTERM. Ranks may see it in different steps: agree before acting on it.
  bool stop_requested() const;
  std::string name() const;  ///< for messages: "rank 1 cpu"

 private:
  std::unique_ptr<Transport> transport_;
  RecordWriter* record_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<const Device> device_;  // of the backend
  std::string kind_;
};

/// While an object of this class lives, SIGINT and SIGTERM end this process at once, with exit code 75 (under run()): for long work
/// that leaves nothing half done. Throws Stopped if the signal had already come.
class StopsAtOnce {
 public:
  StopsAtOnce();
  ~StopsAtOnce();
  StopsAtOnce(const StopsAtOnce&) = delete;
  StopsAtOnce& operator=(const StopsAtOnce&) = delete;
};

/// What a main() of a distributed program does: starts MPI when mpiexec (or `motley`) started this process, else runs one
/// rank; calls body; an error on any rank is printed as `[rank 1 cpu] text` and ends all of them. Throws nothing.
/// @return the worst rank's exit code (Exit), the same on every rank
int run(int argc, char** argv, const std::function<void(Runtime&)>& body);

/// The same body on threads of this process, one per transport. Throws the first rank's error, after all threads have ended.
void run_ranks(std::vector<std::unique_ptr<Transport>> transports, const std::function<void(Runtime&)>& body);
/// run_ranks() on in_memory() transports.
void run_ranks_in_memory(int ranks, const std::function<void(Runtime&)>& body);

/// @}
}  // namespace motley
