// SPDX-License-Identifier: Apache-2.0
// What one rank does in a step: kernels on buffers, and messages. Two interpreters: the executor runs it, the simulator runs all
// ranks' Programs in virtual time.
#pragma once
#include <motley/kernel_spec.h>
#include <motley/plan.h>

#include <string>
#include <variant>
#include <vector>

namespace motley {

// Where a buffer lies. arena: one block planned by lifetimes, in the transport's memory. state: outlives the step (parameters,
// optimizer slots, constants). peer: in the arena of another rank of this host, used in place.
enum class Space : std::uint8_t { arena, state, peer };

struct Buffer {
  std::string name{};
  DType dtype = DType::f32;
  Box box{};  // the hull of what this rank holds of the tensor, global indices
  Format format = Format::plain;
  Space space = Space::arena;
  Index bytes = 0, offset = 0;  // offset in the arena
  int first = -1, last = -1;    // steps between which it is live
  int peer = -1, exchange = -1, piece = -1;  // Space::peer: what that rank's piece-th window piece of the exchange to this rank shows
};

struct Place {
  int buffer = -1;
  Index element = 0;
};
struct RunKernel {
  KernelSpec spec{};
  std::vector<Place> operands{};  // as the spec orders them, result last
  std::string pass{};             // what it is for: "conv2d_2 forward", "pack conv2d_2", ...
  bool moves = false;             // a copy that the layout or a format costs: packs, unpacks, reorders
  std::string implementation{};   // the plan's, where the device has a choice; empty: what the device takes by itself
};
struct Piece {
  int peer = -1;
  Place at{};
  Index bytes = 0;
  bool window = false;  // no message: the sender says that `at` is written (or read), the receiver looks at the sender's memory
};
// Starts the messages of an exchange. Exchanges that let a writer know that its window has been read (0 bytes each) are posted by
// the readers behind their last look, and by the writer where it waits for them.
struct Post {
  int exchange = 0;
  std::vector<Piece> sends{}, receives{};
};
struct Wait {
  int exchange = 0;
};
struct ProgramStep {
  std::variant<RunKernel, Post, Wait> what{};
};

struct FedBuffer {  // filled before each run: inputs and labels
  int tensor = -1;
  std::string name{};
  int buffer = -1;
};
struct Slice {  // one owned box of a parameter
  int tensor = -1;
  std::string name{};
  Box box{};
  int value = -1, velocity = -1, gradient = -1;  // buffers; gradient's may hold more than the box
};

struct Program {
  int rank = 0;
  DType dtype = DType::f32;
  std::vector<Buffer> buffers{};
  std::vector<ProgramStep> steps{};
  std::vector<std::string> exchange_names{};  // by exchange number, the same on every rank
  std::vector<FedBuffer> feeds{};
  std::vector<Slice> slices{};
  std::vector<int> main_buffer{};  // per tensor of the plan's passes; -1: this rank holds nothing of it
  int forward_steps = 0;           // the first so many steps make the loss and the logits
  Index arena_bytes = 0, state_bytes = 0;
  bool windows = false;            // some rank reads another one's memory; the same on every rank
};

// Which exchanges go on while kernels run: those with messages between hosts, from or to devices with memory of their own (on one
// host the ranks' own cores do the copying).
enum class Pending : std::uint8_t { none, far };

struct CompileOptions {
  bool keep_gradients = false;  // until the step's end, to be looked at
  std::vector<int> keep{};      // tensors whose finished values stay until the step's end too
  // Per rank a number: ranks with one number can map each other's memory (Transport::hosts); none: all that the mesh puts on one host.
  std::vector<int> hosts{};
  Pending pending = Pending::far;
};

// Pure; no device. InternalError only.
Program compile(const Plan& plan, int rank, const CompileOptions& options = {});

struct SimulatedStep {  // of a Program, in virtual seconds from the training step's start; a Post takes none
  double begin = 0, end = 0;
};
struct Simulated {
  double step_seconds = 0;
  std::vector<double> busy_seconds{}, waiting_seconds{};
  std::vector<std::vector<SimulatedStep>> timeline{};  // per rank, per step of its Program; empty unless the options say so
  std::vector<SimulatedStep> agreement{};              // per rank: on the loss, between the halves; no seconds where the step has no two
};
struct SimulateOptions {
  bool timeline = false;
};
// All ranks' Programs in virtual time.
Simulated simulate(const std::vector<Program>& ranks, const Profile& profile, const SimulateOptions& options = {});

}  // namespace motley
