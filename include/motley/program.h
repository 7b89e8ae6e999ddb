// SPDX-License-Identifier: Apache-2.0
/// @file
/// What one rank does in a step: kernels on buffers, and messages. Two interpreters: the executor runs it, the simulator runs all
/// ranks' Programs in virtual time.
#pragma once
#include <motley/kernel_spec.h>
#include <motley/plan.h>

#include <string>
#include <variant>
#include <vector>

namespace motley {
/// @addtogroup programs
/// @{

/// Where a buffer is stored. arena: one block planned by lifetimes, in the transport's memory. state: in the State (parameters,
/// optimizer slots). kept: the executor's own, from step to step (constants, scalars, sums over micro-batches). peer: in the arena
/// of another rank of this host, used in place.
enum class Space : std::uint8_t { arena, state, kept, peer };

/// Memory of one tensor, or of a part of one.
struct Buffer {
  std::string name{};             ///< for errors
  DType dtype = DType::f32;       ///< of its elements
  Box box{};                      ///< the hull of what this rank has of the tensor, global indices
  Format format = Format::plain;  ///< order of its elements
  Space space = Space::arena;     ///< where it is stored
  Index bytes = 0;                ///< its size
  Index offset = 0;               ///< in the arena
  int first = -1;                 ///< step from which it is live
  int last = -1;                  ///< step up to which it is live
  int peer = -1;                  ///< Space::peer: the rank whose memory it is
  int exchange = -1;              ///< Space::peer: the exchange to this rank
  int piece = -1;                 ///< Space::peer: which of that exchange's window pieces from that rank
};

/// An element of a buffer.
struct Place {
  int buffer = -1;    ///< which buffer
  Index element = 0;  ///< from its start
};
/// Why a kernel runs: a pass of the network, a copy that the layout or a format costs (packs, unpacks, reorders), the optimizer.
enum class Purpose : std::uint8_t { pass, move, update };
/// Runs one kernel.
struct RunKernel {
  KernelSpec spec{};                ///< which computation
  std::vector<Place> operands{};    ///< as the spec orders them, result last
  std::string pass{};               ///< what it is for: "conv2d_2 forward", "pack conv2d_2", ...
  Purpose purpose = Purpose::pass;  ///< why it runs
  std::string implementation{};     ///< the plan's, where the device has a choice; empty: what the device takes by itself
};
/// One message of an exchange, at one of its ends.
struct Piece {
  int peer = -1;        ///< the other rank
  Place at{};           ///< first element here
  Index bytes = 0;      ///< size
  bool window = false;  ///< no message: the sender signals that `at` is written (or read), the receiver reads the sender's memory
};
/// Starts the messages of an exchange. Exchanges that acknowledge to a writer that its window has been read (0 bytes each) are
/// posted by the readers after their last read, and by the writer where it waits for them.
struct Post {
  int exchange = 0;               ///< its number
  std::vector<Piece> sends{};     ///< to other ranks
  std::vector<Piece> receives{};  ///< from other ranks
};
/// Waits for the messages of an exchange.
struct Wait {
  int exchange = 0;  ///< its number
};
/// One step of a Program.
struct ProgramStep {
  std::variant<RunKernel, Post, Wait> what{};  ///< what it does
  bool once = false;  ///< in the first micro-batch of a training step alone: it depends on parameters, not on samples
};

/// Consecutive kernels that run block by block along an index that all of them have, so that what one makes is in a cache when the
/// next one reads it: the same bits as one after the other. A device with several threads runs them one after the other.
struct Chain {
  /// One of them.
  struct Part {
    KernelSpec spec{};             ///< a block of it
    KernelSpec last{};             ///< the last block
    std::vector<Index> advance{};  ///< by how many elements each operand moves from a block to the next
  };
  int begin = 0;              ///< the first step
  int end = 0;                ///< the step after the last one
  Index blocks = 0;           ///< how many, at least 2
  std::vector<Part> parts{};  ///< by step
};

/// Filled before each run: an input or the labels.
struct FedBuffer {
  int tensor = -1;     ///< of the plan's passes
  std::string name{};  ///< of the tensor
  int buffer = -1;     ///< that is filled
};
/// One owned box of a parameter.
struct Slice {
  int tensor = -1;           ///< of the plan's passes
  std::string name{};        ///< of the parameter
  Box box{};                 ///< global indices
  int value = -1;            ///< buffer
  std::vector<int> slots{};  ///< buffers: what the optimizer keeps of it, in its order
  int gradient = -1;         ///< buffer; it may have more than the box
  int sum = -1;              ///< buffer: of the gradients of all micro-batches, f64; -1: there is one
};

/// What one rank does in a step.
struct Program {
  int rank = 0;                               ///< whose
  DType dtype = DType::f32;                   ///< of every float tensor
  std::vector<Buffer> buffers{};              ///< by number
  std::vector<ProgramStep> steps{};           ///< in order
  std::vector<Chain> chains{};                ///< in order
  std::vector<std::string> exchange_names{};  ///< by exchange number, the same on every rank
  std::vector<FedBuffer> feeds{};             ///< inputs and labels
  std::vector<Slice> slices{};                ///< owned boxes of parameters
  std::vector<int> main_buffer{};             ///< per tensor of the plan's passes; -1: this rank has nothing of it
  int forward_steps = 0;                      ///< the first so many steps make the loss and the logits
  int combine_begin = 0;                      ///< the first step after a micro-batch's gradients: sums of all, norms
  int update_begin = 0;                       ///< the first step of the update; before it all ranks agree that it shall be
  int move_begin = 0;    ///< the first step after the norms of parameters and directions; before it the ranks add them (directs)
  bool directs = false;  ///< the optimizer has a direction (Optimizer::direction); the same on every rank
  int lengths = -1;      ///< buffer, f64: per slice the squared norms of its values and of their direction
  int ratios = -1;       ///< buffer, f64: per slice the ratio of the norms of its complete parameter
  int scalars = -1;  ///< buffer of the update's {learning rate, factor of the gradients, what the optimizer adds, kept part of the
                     ///< average}, f64
  std::vector<int> norms{};  ///< buffers of one element each: squared norms of the slices' gradients, to clip by; -1: a statistic's
  Index arena_bytes = 0;     ///< of all buffers of Space::arena, by lifetimes
  double learning_rate = 0;  ///< in scalars until Executor::set_update
  double average = 0;        ///< part of the parameters' averages that a step keeps, but for the first one; 0: they have none
  std::vector<std::string> slot_names{};  ///< of Slice::slots
  Formula step_scalars{};                 ///< of the step's number: what the optimizer adds to scalars
  std::vector<int> ones{};                ///< buffers of Space::kept that are 1; the others begin at 0
  Index state_bytes = 0;                  ///< of all buffers of Space::state and Space::kept
  int micro_batches = 1;                  ///< so often the steps before combine_begin run in a training step, but for `once`
  bool windows = false;                   ///< some rank reads another one's memory; the same on every rank
};

/// Which exchanges overlap with kernels: those with messages between hosts, from or to devices with memory of their own (on one
/// host the ranks' own cores do the copying).
enum class Pending : std::uint8_t { none, far };

/// Which consecutive kernels run block by block: none, those where bytes say that it is faster, or all that can (for tests).
enum class Chained : std::uint8_t { none, paying, all };

/// Options of compile(). Every field has a default.
struct CompileOptions {
  bool keep_gradients = false;  ///< until the step's end, for inspection
  std::vector<int> keep{};      ///< tensors whose finished values stay until the step's end too
  /// Per rank a number: ranks with one number can map each other's memory (Transport::hosts); none: all that the mesh puts on one
  /// host.
  std::vector<int> hosts{};
  Pending pending = Pending::far;   ///< which exchanges overlap with kernels
  bool fuse = true;                 ///< kernels add their bias and apply the activation after them
  bool fuse_maps = true;            ///< a map that another one alone reads becomes a part of it
  Chained chain = Chained::paying;  ///< which maps run block by block
  bool share = true;                ///< ranks of a host read each other's memory and store once what all of them read
  bool coalesce = true;             ///< small messages that are ready together travel as one
  bool settle = true;        ///< a rank waits for its peers to have read its memory where it uses that memory again, not before
  bool reuse_memory = true;  ///< buffers that are not live at the same time may overlap in the arena
};

/// The Program of one rank. Pure; no device. InternalError only.
Program compile(const Plan& plan, int rank, const CompileOptions& options = {});

/// One step of a Program, in virtual seconds from when the first rank begins the training step; a Post takes none.
struct SimulatedStep {
  double begin = 0;  ///< seconds
  double end = 0;    ///< seconds
};
/// A predicted training step.
struct Simulated {
  double step_seconds = 0;             ///< from when all ranks have ended the training step before to when all have ended this one
  std::vector<double> busy_seconds{};  ///< computing, by rank
  std::vector<double> waiting_seconds{};  ///< for other ranks, by rank
  /// Per rank, per step of its Program, of the last micro-batch that runs it; empty unless the options say so.
  std::vector<std::vector<SimulatedStep>> timeline{};
  std::vector<SimulatedStep> agreement{};  ///< per rank: that the update shall be; no seconds where it need not wait
  std::vector<SimulatedStep> norms{};      ///< per rank: adding the norms of what moves by them (directs); empty: nothing does
};
/// Options of simulate(). Every field has a default.
struct SimulateOptions {
  bool timeline = false;  ///< whether Simulated::timeline is filled
  int steps = 1;          ///< training steps, one after another, at least 1; of the last one is what is returned
};
/// Runs all ranks' Programs in virtual time.
Simulated simulate(const std::vector<Program>& ranks, const Profile& profile, const SimulateOptions& options = {});

/// @}
}  // namespace motley
