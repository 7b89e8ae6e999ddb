// SPDX-License-Identifier: Apache-2.0
// Runs a Program on a backend.
#pragma once
#include <motley/backend.h>
#include <motley/data.h>
#include <motley/program.h>
#include <motley/state.h>
#include <motley/transport.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace motley {

class StepTrace;  // lib/run/step_trace.h

struct Ran {
  double seconds = 0, busy_seconds = 0, waiting_seconds = 0;
  double polling_seconds = 0;  // of the busy ones: looking after messages under way, between kernels
  Index bytes_received = 0;  // payload from other ranks
};

class Executor {
 public:
  // Compiles every kernel once and takes all memory: run() allocates nothing. DeviceError: more memory than the device has, with
  // the five largest buffers.
  Executor(const Program& program, Backend& backend, Transport& transport, State& state);
  ~Executor();  // before the transport's: with messages unfinished (an error) the transport keeps the memory that they use
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  // Reads this rank's box of every input and label: read(name, box, out). Collective behind a forward half without its backward half.
  void feed(const std::function<void(const std::string& tensor, const Box& box, std::span<std::byte> out)>& read);
  Ran run();           // the whole step; every rank calls it
  // Up to loss and logits; after(i): behind step i of the Program (what it takes counts as that step's).
  Ran run_forward(const std::function<void(int step)>& after = {});
  Ran run_backward();  // the rest of a step whose run_forward() was just called: gradients and update
  // Collective. The forward half on what was fed last, each result looked at. The first tensor of the plan's passes (an input,
  // a parameter, then in the order of the steps) in which this rank has a value that is not finite; -1: none.
  int first_not_finite();
  // Called before each kernel or wait with its name; for progress records.
  void on_step(std::function<void(const char* what)> callback);
  // From now on run(), run_forward() and run_backward() record when each of the Program's steps began and ended; on a device its
  // kernels by the device's own clock. It outlives the executor; nullptr: nothing is recorded.
  void record_into(StepTrace* trace);
  // Values of a box that this rank holds in a tensor's main buffer or in a state buffer, row-major. For people and checks.
  std::vector<double> read(int buffer, const Box& box) const;
  // XXH3 of the box's bytes in this order (plain or channels last), in whatever order they are stored: the same for the same bits. At once where they are stored so.
  std::uint64_t hash(int buffer, const Box& box, Format order) const;
  void write(int buffer, const Box& box, const std::vector<double>& values);
  Index memory_bytes() const;
  // Seconds spent per kernel so far, for reports.
  struct Spent {
    std::string pass{}, implementation{};
    double seconds = 0;
    Index runs = 0;
    bool moves = false;
  };
  std::vector<Spent> spent() const;

 private:
  struct Bound;
  std::unique_ptr<Bound> bound_;
};

}  // namespace motley
