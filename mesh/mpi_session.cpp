// SPDX-License-Identifier: Apache-2.0
#include "mesh/mpi_session.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <motley/mpi.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

#include "mesh/backoff.h"
#include "mesh/mpi_check.h"

namespace motley {

namespace {

constexpr auto kRest = std::chrono::milliseconds(200);  // longer than the time in which ranks leave a barrier one after another

// As the launcher says; if it says nothing, the ranks may be on several hosts.
bool on_several_hosts() {
  int size = 1;
  mpi_check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  const char* here = std::getenv("MPI_LOCALNRANKS");
  return size > 1 && (here == nullptr || std::atoi(here) < size);
}

// In MPI_Finalize UCX closes a TCP connection with a PUT that the other end has to answer, then waits in the process manager's
// barrier, where it answers nothing (MPICH 4.0, UCX 1.13). If a rank outside MPI_Finalize answers before it sends its own PUT, the
// other end enters that barrier too early, and this rank then waits for ever. So no rank makes an MPI call while others may already
// be in MPI_Finalize.
void come_to_rest() {
  MPI_Request all_here = MPI_REQUEST_NULL;
  mpi_check(MPI_Ibarrier(MPI_COMM_WORLD, &all_here), "MPI_Ibarrier");
  Backoff backoff(false);
  for (int done = 0; done == 0; backoff.pause()) {
    mpi_check(MPI_Test(&all_here, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (backoff.due() && backoff.seconds() > deadline_seconds())
      throw Error(Exit::hung, "not all ranks have come to the end of the job");
  }
  std::this_thread::sleep_for(kRest);
}

constexpr int kYes = 10;  // not an exit code of MPI
constexpr unsigned kPatienceSeconds = 20;

// In a child process: MPICH ends a process that queries before MPI_Init.
bool asked_by_child(int (*ask)()) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(kPatienceSeconds);
    const int nothing = open("/dev/null", O_WRONLY);  // UCX writes its errors to stdout
    const bool quiet = nothing >= 0 && dup2(nothing, STDOUT_FILENO) >= 0 && dup2(nothing, STDERR_FILENO) >= 0;
    const bool yes = quiet && MPI_Init(nullptr, nullptr) == MPI_SUCCESS && ask() == 1 && MPI_Finalize() == MPI_SUCCESS;
    _exit(yes ? kYes : 0);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == kYes;
}

}  // namespace

MpiSession::MpiSession(int& argc, char**& argv) {
  int already = 0;
  mpi_check(MPI_Initialized(&already), "MPI_Initialized");
  if (already != 0) return;
  // A rank that aborts has printed the reason; MPICH's text about it would only hide that ("Abort(78) on node 0" is printed still).
  if (setenv("MPIR_CVAR_SUPPRESS_ABORT_MESSAGE", "1", 0) != 0) throw DeviceError("setenv failed");
  int level = MPI_THREAD_SINGLE;
  mpi_check(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread");
  ours_ = true;
  // Errors of a single request are reported on one of these; otherwise MPI ends the process before its code is checked.
  for (const MPI_Comm comm : {MPI_COMM_WORLD, MPI_COMM_SELF})
    mpi_check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  if (level < MPI_THREAD_FUNNELED) throw DeviceError("MPI_Init_thread: this MPI does not offer MPI_THREAD_FUNNELED");
}

std::unique_ptr<Transport> MpiSession::transport() const {
  return mpi_transport(MPI_COMM_WORLD);
}

std::string mpi_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int size = 0;
  mpi_check(MPI_Get_library_version(text.data(), &size), "MPI_Get_library_version");
  // MPICH's first line: "MPICH Version:\t4.0.2".
  std::string line(text.data(), static_cast<std::size_t>(size));
  line = line.substr(0, line.find('\n'));
  constexpr std::string_view kWord = " Version:";
  const std::size_t at = line.find(kWord);
  if (at == std::string::npos) return line;
  const std::size_t begin = line.find_first_not_of(" \t", at + kWord.size());
  return line.substr(0, at) + (begin == std::string::npos ? "" : " " + line.substr(begin));
}

bool mpi_takes_device_memory() {
  // Not every MPI has it, and in some it is in a separate header.
  const auto ask = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support"));
  if (ask == nullptr) return false;
  int begun = 0;
  mpi_check(MPI_Initialized(&begun), "MPI_Initialized");
  return begun != 0 ? ask() == 1 : asked_by_child(ask);
}

void MpiSession::finish() {
  if (!ours_) return;
  if (on_several_hosts()) come_to_rest();
  mpi_check(MPI_Finalize(), "MPI_Finalize");
  ours_ = false;
}

void MpiSession::end_others(int code) noexcept {
  // Ranks of other hosts outlive a rank that merely exits (MPICH 4.0: a proxy ends only its own ranks; mpiexec ends all after a
  // signal or this message). MPI_LOCALNRANKS: the manager is MPICH's, and its PMI has version 1.
  const char* const socket = std::getenv("PMI_FD");
  if (socket == nullptr || std::getenv("MPI_LOCALNRANKS") == nullptr) return;
  constexpr int kSaidMs = 500;  // for mpiexec to pass stderr on: when it ends a job it drops what it has not read (MPICH 4.0)
  std::fflush(nullptr);
  static_cast<void>(::poll(nullptr, 0, kSaidMs));
  const std::string line = "cmd=abort exitcode=" + std::to_string(code) + "\n";
  if (::write(std::atoi(socket), line.data(), line.size()) < 0) return;  // it has already ended
}

void MpiSession::abort(int code) noexcept {
  std::fflush(nullptr);
  int begun = 0, over = 0;
  const bool runs = MPI_Initialized(&begun) == MPI_SUCCESS && begun != 0 && MPI_Finalized(&over) == MPI_SUCCESS && over == 0;
  if (!runs) end_others(code);
  // MPI_Abort does not return; if it did, the process would still end and mpiexec would end the others.
  if (runs && MPI_Abort(MPI_COMM_WORLD, code) != MPI_SUCCESS) std::fputs("motley: MPI_Abort failed\n", stderr);
  _exit(code);
}

}  // namespace motley
