// SPDX-License-Identifier: Apache-2.0
// A small program for launcher_test: `launch_probe MODE RANKS DIRECTORY` launches RANKS ranks that behave as MODE says.
#include <motley/mpi.h>
#include <motley/runtime.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <thread>

#include "app/launcher.h"
#include "run/agreed.h"
#include "run/start.h"

namespace {

bool g_hangs_at_the_end = false, g_dies_at_the_end = false;  // this rank in MPI_Finalize

}  // namespace

// In MPI's place: its own is PMPI_Finalize.
extern "C" int MPI_Finalize() {
  while (g_hangs_at_the_end) pause();
  if (g_dies_at_the_end) raise(SIGKILL);
  return PMPI_Finalize();
}

// In the C library's place: with UNREACHABLE rank 0 takes no link of another host, as behind a firewall.
extern "C" int accept4(int socket, sockaddr* address, socklen_t* length, int flags) {
  if (std::getenv("UNREACHABLE") == nullptr) return static_cast<int>(syscall(SYS_accept4, socket, address, length, flags));
  errno = EAGAIN;
  return -1;
}

namespace {

using namespace motley;

void pause_ms(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

void receive_from(Transport& t, int from, const std::string& what) {
  std::byte byte{};
  const auto ticket = t.receive(from, 0, std::span(&byte, 1));
  wait(t, std::span(&ticket, 1), what);
}

// Steps that end on request, all ranks in the same one.
void train(Runtime& rt) {
  rt.phase("train");
  for (int step = 0;; step++) {
    if (agree(rt.transport(), rt.stop_requested() ? 1 : 0).status != 0)
      throw Stopped("stopped on request after step " + std::to_string(step));
    pause_ms(5);
  }
}

void with_a_fault(Runtime& rt, void (*fault)()) {
  rt.phase("train");
  for (int step = 0; step < 5; step++) static_cast<void>(agree(rt.transport(), 0));
  if (rt.rank() == 1) {
    rt.phase("conv2d_2 backward");
    fault();
  }
  receive_from(rt.transport(), rt.rank() == 1 ? 0 : 1, "step 6");
}

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "-" : text;
}

void environment(Runtime& rt) {
  std::string mine = "threads " + variable("OMP_NUM_THREADS") + ", cores " + variable("MOTLEY_CORES") + ", bound " +
                     to_text(allowed_cores()) + ", isa " + variable("ONEDNN_MAX_CPU_ISA") + ", " + rt.name();
  for (const auto& bytes : rt.transport().gather_all(std::as_bytes(std::span(mine))))
    rt.print(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

void deadlock(Runtime& rt) {
  receive_from(rt.transport(), (rt.rank() + 1) % rt.ranks(), "all_gather dense_5.weight");
}

void slow(Runtime& rt) {
  rt.phase("a long kernel");
  if (rt.rank() == 1) pause_ms(2500);
  static_cast<void>(agree(rt.transport(), 0));
  rt.print("done");
}

// Computes for SECONDS, then all meet.
void compute(Runtime& rt) {
  rt.phase("a long kernel");
  const int seconds = std::atoi(variable("SECONDS").c_str());
  if (rt.rank() == rt.ranks() - 1) pause_ms(1000 * seconds);
  static_cast<void>(agree(rt.transport(), 0));
  rt.print("done");
}

// Rank VICTIM does it to itself in step 5, the others wait for it.
void victim(Runtime& rt, int signal) {
  rt.phase("train");
  for (int step = 0; step < 5; step++) static_cast<void>(agree(rt.transport(), 0));
  const int victim = std::atoi(variable("VICTIM").c_str());
  if (rt.rank() == victim) {
    rt.phase("conv2d_2 backward");
    pause_ms(600);  // a beat or two, so that other hosts hear of the phase
    static_cast<void>(raise(signal));
  }
  static_cast<void>(agree(rt.transport(), 0));
}

void fault_at_the_end(Runtime& rt, bool& fault, int code) {
  fault = rt.rank() == 1;
  rt.print("result");
  if (code != 0) throw Error(static_cast<Exit>(code), "a bad config");
}

void result_and_error(Runtime& rt) {
  rt.print("{\"ok\": false}");
  throw Error(Exit::internal, "a difference was found");
}

const std::map<std::string, void (*)(Runtime&)>& modes() {
  static const std::map<std::string, void (*)(Runtime&)> all{
      {"ok", [](Runtime& rt) { rt.print("result " + std::to_string(agree(rt.transport(), rt.rank()).status)); }},
      {"train", train},
      {"environment", environment},
      {"deadlock", deadlock},
      {"slow", slow},
      {"compute", compute},
      {"victim_stops", [](Runtime& rt) { victim(rt, SIGSTOP); }},
      {"victim_dies", [](Runtime& rt) { victim(rt, SIGKILL); }},
      {"hang_at_the_end", [](Runtime& rt) { fault_at_the_end(rt, g_hangs_at_the_end, 0); }},
      {"refuse_and_hang_at_the_end", [](Runtime& rt) { fault_at_the_end(rt, g_hangs_at_the_end, 78); }},
      {"die_at_the_end", [](Runtime& rt) { fault_at_the_end(rt, g_dies_at_the_end, 0); }},
      {"refuse_and_die_at_the_end", [](Runtime& rt) { fault_at_the_end(rt, g_dies_at_the_end, 78); }},
      {"result_and_error", result_and_error},
      {"segv", [](Runtime& rt) { with_a_fault(rt, [] { static_cast<void>(raise(SIGSEGV)); }); }},
      {"kill9", [](Runtime& rt) { with_a_fault(rt, [] { static_cast<void>(raise(SIGKILL)); }); }},
      {"deaf",  // to every request to stop
       [](Runtime& rt) {
         rt.phase("train");
         for (;;) pause_ms(100);
       }},
      {"exit0", [](Runtime& rt) { with_a_fault(rt, [] { _exit(0); }); }},
      {"exits", [](Runtime& rt) { with_a_fault(rt, [] { std::exit(0); }); }},
      {"throw", [](Runtime& rt) { with_a_fault(rt, [] { throw Error(Exit::internal, "the loss is not finite in step 6"); }); }},
      {"throw_other", [](Runtime& rt) { with_a_fault(rt, [] { throw std::out_of_range("vector::at"); }); }},
      {"stop_one", [](Runtime& rt) { with_a_fault(rt, [] { static_cast<void>(raise(SIGSTOP)); }); }},
      {"stop_all", [](Runtime&) { static_cast<void>(raise(SIGSTOP)); }},
      {"agreed_error",
       [](Runtime& rt) {
         agreed(rt.transport(), [&] {
           if (rt.rank() == 1) throw Error(Exit::data, "a bad sample");
         });
       }},
      {"refuse", [](Runtime&) { throw UserError("a bad config"); }},
      {"unfinished", [](Runtime& rt) {
         static std::byte byte{};
         static_cast<void>(rt.transport().receive((rt.rank() + 1) % rt.ranks(), 0, std::span(&byte, 1)));
       }}};
  return all;
}

std::vector<Device> devices(int ranks, const std::string& mode) {
  std::vector<Device> out;
  for (int r = 0; r < ranks; r++) out.push_back({.name = r == 0 ? "fast cpu" : "old cpu " + std::to_string(r)});
  if (mode == "environment") {
    out[0].threads = 2;
    out[1].isa = "avx2";
    out[1].cores = {0};
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 || !modes().contains(argv[1])) return 64;
  const std::string mode = argv[1];
  const int ranks = std::atoi(argv[2]);
  try {
    if (role(ranks) == Role::launcher)
      return launch({.devices = devices(ranks, mode),
                     .arguments = {mode, argv[2], argv[3]},
                     .run_directory = argv[3],
                     .program = std::getenv("PROGRAM") == nullptr ? "" : variable("PROGRAM")});
  } catch (const Error& e) {
    std::fprintf(stderr, "motley: %s\n", e.what());
    return static_cast<int>(e.code());
  }
  const int code = run(argc, argv, modes().at(mode));
  if (mode == "ok" && std::getenv("AGAIN") != nullptr) return run(argc, argv, modes().at(mode));
  return code;
}
