// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs a Program on a backend.
#pragma once
#include <motley/backend.h>
#include <motley/batch.h>
#include <motley/program.h>
#include <motley/state.h>
#include <motley/transport.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace motley {
/// @addtogroup programs
/// @{

class StepTrace;  // lib/run/step_trace.h

/// Times and bytes of a run.
struct Ran {
  double seconds = 0;                 ///< by the clock
  double busy_seconds = 0;            ///< computing and copying
  double waiting_seconds = 0;         ///< for other ranks
  double polling_seconds = 0;         ///< part of busy_seconds: progressing messages in flight, between kernels
  Index bytes_received = 0;           ///< payload from other ranks
  Ran& operator+=(const Ran& other);  ///< adds a run after it
};

/// One rank's Program, bound to memory, kernels and messages.
class Executor {
 public:
  /// Compiles every kernel once and allocates all memory: run() allocates nothing. Parameters are those of the State; with `slot`,
  /// that slot's values instead (running statistics have no slots: their own values). DeviceError: more memory than the device has,
  /// with the five largest buffers.
  Executor(const Program& program, Backend& backend, Transport& transport, State& state, const std::string& slot = {});
  ~Executor();  // before the transport's destructor: if messages are unfinished (an error), the transport keeps the memory that
                // they use
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  /// Reads this rank's box of every input and label: read(name, box, out). Collective if the previous step ended without its
  /// update.
  void feed(const std::function<void(const std::string& tensor, const Box& box, std::span<std::byte> out)>& read);
  /// Collective: the complete step, of one micro-batch; after(i) as in run_forward(), except after the update.
  Ran run(const std::function<void(int step)>& after = {});
  /// Collective: up to loss and logits. after(i) is called after step i of the Program; its time counts as that step's.
  Ran run_forward(const std::function<void(int step)>& after = {});
  /// Collective: the gradients of a micro-batch whose run_forward() was just called; after(i) as there. Until run_combine() the
  /// following micro-batches use the parameters that the first one received.
  Ran run_backward(const std::function<void(int step)>& after = {});
  Ran run_combine();  ///< After the last micro-batch's run_backward(): the gradients of all of them, and their norms where they are
                      ///< clipped.
  /// Instead of run_combine(): what the micro-batches have added up is forgotten. Collective.
  void drop_micro_batches();
  Ran run_update();  ///< After run_combine(). Collective where the optimizer has a direction (Optimizer::direction).
  /// Learning rate and gradient factor of the updates from now on; until set: {the optimizer's, 1}. UserError: a Trainer's
  /// executor, for which the Trainer sets them in each step (Trainer::set_learning_rate).
  void set_update(double learning_rate, double factor_of_gradients, Index step = 1);
  /// Squared norm of the gradients of the parameters that this rank owns, after run_combine(); 0 if the step does not clip them.
  double squared_norm() const;
  /// The first tensor of the plan's passes (an input, a parameter, then in the order of the steps) in which this rank has a value
  /// that is not finite; -1: none. Collective: runs the forward half on what was fed last and examines each result.
  int first_not_finite();
  /// The first parameter of which this rank owns a value that is not finite; -1: none. The loss can be finite in spite of such
  /// values (a kernel's relu may turn NaN into 0).
  int first_parameter_not_finite() const;
  /// The first parameter whose gradient has a norm that is not finite on this rank; -1: none, or gradients are not clipped.
  int first_gradient_not_finite() const;
  /// Called before each kernel or wait with its name; for progress records.
  void on_step(std::function<void(const char* what)> callback);
  /// From now on runs record when each step of the Program began and ended (a device's kernels by the device's own clock). `trace`
  /// must outlive the executor; nullptr: nothing is recorded.
  void record_into(StepTrace* trace);
  /// Values of a box that this rank has in a tensor's main buffer or in a state buffer, row-major. For inspection and checks.
  std::vector<double> read(int buffer, const Box& box) const;
  /// XXH3 of the box's bytes in the given order (plain or channels last), whatever order they are stored in: equal bits give equal
  /// hashes. A single pass where they are stored in that order.
  std::uint64_t hash(int buffer, const Box& box, Format order) const;
  /// Stores values in a box: the inverse of read().
  void write(int buffer, const Box& box, const std::vector<double>& values);
  Index memory_bytes() const;  ///< Used, kernel workspaces included.
  /// Seconds spent in one kernel so far, for reports.
  struct Spent {
    std::string pass{};            ///< what it is for
    std::string implementation{};  ///< which kernel ran
    double seconds = 0;            ///< of all runs
    Index runs = 0;                ///< how often it ran
  };
  std::vector<Spent> spent() const;  ///< by kernel, in the order of the Program

 private:
  friend class Trainer;
  void write_update(double learning_rate, double factor_of_gradients, Index step);
  struct Bound;
  std::unique_ptr<Bound> bound_;
  bool of_trainer_ = false;
};

/// @}
}  // namespace motley
