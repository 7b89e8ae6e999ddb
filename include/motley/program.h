// SPDX-License-Identifier: Apache-2.0
/// @file
/// What one rank does in a step: kernels on buffers, and messages. Two interpreters: the executor runs one rank's Program, the
/// simulator runs all ranks' Programs in virtual time.
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
/// optimizer slots). kept: owned by the executor, from step to step (constants, scalars, sums over micro-batches). peer: in the
/// arena of another rank of this host, used in place.
enum class Space : std::uint8_t { arena, state, kept, peer };

/// Memory of one tensor, or of a part of one.
struct Buffer {
  std::string name{};             ///< for errors
  DType dtype = DType::f32;       ///< of its elements
  Box box{};                      ///< the hull of the boxes in it, global indices
  Format format = Format::plain;  ///< order of its elements
  Space space = Space::arena;     ///< where it is stored
  Index bytes = 0;                ///< its size
  Index offset = 0;               ///< in the arena
  int first = -1;                 ///< step from which it is live
  int last = -1;                  ///< step up to which it is live
  int peer = -1;                  ///< Space::peer: the rank whose memory it is
  int exchange = -1;              ///< Space::peer: the exchange to this rank
  int piece = -1;                 ///< Space::peer: its number among that exchange's window pieces from that rank
};

/// A box that a rank has of a tensor, in a buffer that contains it. made: a pass writes it there. owner, home, reader: as the plan
/// says. Of a tensor that arrives in tiles: each tile. Elements that several buffers have are copied from one to the others.
struct Stored {
  /// What a rank has a box for.
  enum class As : std::uint8_t { made, owner, home, reader };
  As as = As::reader;  ///< what it is here for
  Box box{};           ///< global indices
  int buffer = -1;     ///< which buffer
};

/// An element of a buffer.
struct Place {
  int buffer = -1;    ///< which buffer
  Index element = 0;  ///< from its start
};
/// Why a kernel runs: a pass of the network, a copy required by the layout or a format (packs, unpacks, reorders), the optimizer.
enum class Purpose : std::uint8_t { pass, move, update };
/// Runs one kernel.
struct RunKernel {
  KernelSpec spec{};                ///< which computation
  std::vector<Place> operands{};    ///< as the spec orders them, result last
  std::string pass{};               ///< what it is for: "conv2d_2 forward", "pack conv2d_2", ...
  Purpose purpose = Purpose::pass;  ///< why it runs
  std::string implementation{};     ///< the plan's choice, where the device has one; empty: the device's default
  int layer = -1;                   ///< the layer that it counts for, by number in the order of the layers' first passes; -1: none
};
/// One message of an exchange, at one of its ends.
struct Piece {
  int peer = -1;        ///< the other rank
  Place at{};           ///< first element in this rank's buffer
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
  /// It depends on parameters, not on samples: only in the first micro-batch of a training step; where there is one micro-batch, on
  /// frozen parameters, and only in the first step after the State has changed.
  bool once = false;
};

/// Consecutive kernels that run block by block along an index that all of them have, so that what one kernel writes is in a cache
/// when the next one reads it; the bits are the same as kernel after kernel. A device with several threads runs them kernel after
/// kernel.
struct Chain {
  /// One kernel of the chain.
  struct Part {
    KernelSpec spec{};             ///< of one block
    KernelSpec last{};             ///< of the last block
    std::vector<Index> advance{};  ///< by how many elements each operand moves from one block to the next
  };
  int begin = 0;              ///< the first step
  int end = 0;                ///< the step after the last one
  Index blocks = 0;           ///< how many, at least 2
  std::vector<Part> parts{};  ///< by step
};

/// Filled before each run: an input or the labels.
struct FedBuffer {
  int tensor = -1;     ///< number among the tensors of the plan's passes
  std::string name{};  ///< of the tensor
  int buffer = -1;     ///< the buffer that is filled
};
/// One owned box of a parameter.
struct Slice {
  int tensor = -1;           ///< number among the tensors of the plan's passes
  std::string name{};        ///< of the parameter
  Box box{};                 ///< global indices
  int value = -1;            ///< buffer
  std::vector<int> slots{};  ///< buffers: the optimizer's slots, in the optimizer's order
  int gradient = -1;         ///< buffer; it may hold more than the box; -1: the parameter is frozen
  int sum = -1;              ///< f64 buffer: the sum of all micro-batches' gradients; -1: there is one micro-batch
  double rate_factor = 1;    ///< of the learning rate (ParameterGroup)
  double weight_decay = 0;   ///< of the parameter
};

/// What an exchange moves: values of some tensors, or nothing (acknowledgements, grants).
struct Moved {
  std::vector<int> tensors{};  ///< numbers among the tensors of the plan's passes
  std::size_t hop = 0;         ///< 0: partial sums to owners, 1: from owners to their home, 2: to readers
  std::size_t stage = 0;       ///< of the hop's schedule
  bool flags = false;  ///< no values: the signals of those tensors that ranks of one host read in place, where others get messages
};

/// What one rank does in a step.
struct Program {
  int rank = 0;                               ///< which rank
  DType dtype = DType::f32;                   ///< of every float tensor
  std::vector<Buffer> buffers{};              ///< by number
  std::vector<ProgramStep> steps{};           ///< in order
  std::vector<Chain> chains{};                ///< in order
  std::vector<std::string> exchange_names{};  ///< by exchange number, the same on every rank
  std::vector<Moved> moved{};                 ///< by exchange number, the same on every rank
  std::vector<FedBuffer> feeds{};             ///< inputs and labels
  std::vector<Slice> slices{};                ///< owned boxes of parameters
  std::vector<std::vector<Stored>> stored{};  ///< per tensor of the plan's passes: what this rank has of it
  /// The buffer that has this box of the tensor as an owner, a reader, ...; -1: none has.
  int buffer_of(int tensor, Stored::As as, const Box& all_of) const;
  int forward_steps = 0;  ///< the first so many steps make the loss and the logits
  int combine_begin = 0;  ///< the first step after a micro-batch's gradients: sums over all micro-batches, norms
  int update_begin = 0;   ///< the first step of the update; before it all ranks agree to run it
  int move_begin = 0;     ///< the first step after norms of parameters and directions; before it the ranks sum them (directs)
  bool directs = false;   ///< the optimizer has a direction (Optimizer::direction); the same on every rank
  int lengths = -1;       ///< f64 buffer: per slice the squared norms of its values and of its direction
  int ratios = -1;        ///< f64 buffer: per slice the ratio of the norms of its complete parameter
  /// f64 buffer of the update: {factor of the gradients, the optimizer's additional scalars, kept part of the average}, then for
  /// each slice {learning rate, weight decay}
  int scalars = -1;
  std::vector<int> norms{};  ///< one-element buffers: squared norms of the slices' gradients, to clip by; -1: it is not trained
  Index arena_bytes = 0;     ///< of all buffers of Space::arena, by lifetimes
  double learning_rate = 0;  ///< in `scalars` until Executor::set_update
  double average = 0;        ///< part of the parameters' averages that every step but the first keeps; 0: there are no averages
  std::vector<std::string> slot_names{};  ///< of Slice::slots
  Formula step_scalars{};                 ///< of the step's number: the optimizer's additional scalars
  std::vector<int> ones{};                ///< buffers of Space::kept that are 1; the others begin at 0
  Index state_bytes = 0;                  ///< of all buffers of Space::state and Space::kept
  int micro_batches = 1;  ///< how often the steps before combine_begin run in a training step (those with `once`: one time)
  bool windows = false;   ///< some rank reads another one's memory; the same on every rank
};

/// Which exchanges overlap with kernels. far: those with messages between hosts, or from or to devices with separate memory (on one
/// host the ranks' own cores do the copying).
enum class Pending : std::uint8_t { none, far };

/// Which consecutive kernels run block by block: none, those for which a count of bytes predicts a gain, or all that can (for
/// tests).
enum class Chained : std::uint8_t { none, paying, all };

/// Options of compile(). Every field has a default.
struct CompileOptions {
  bool keep_gradients = false;  ///< gradients stay until the step's end, for inspection
  std::vector<int> keep{};      ///< tensors whose finished values stay until the step's end too
  /// One number per rank: ranks with the same number can map each other's memory (Transport::hosts); empty: ranks that the mesh
  /// puts on the same host.
  std::vector<int> hosts{};
  Pending pending = Pending::far;   ///< which exchanges overlap with kernels
  bool fuse = true;                 ///< kernels add their bias and apply the activation that follows
  bool fuse_maps = true;            ///< a map that only one other map reads is fused into it
  Chained chain = Chained::paying;  ///< which maps run block by block
  bool share = true;                ///< ranks of a host read each other's memory, and what all of them read is stored once
  bool coalesce = true;             ///< small messages that are ready together are sent as one
  bool settle = true;               ///< a rank waits until its peers have read its memory only where it uses that memory again
  bool reuse_memory = true;         ///< buffers that are not live at the same time may overlap in the arena
};

/// The Program of one rank. Pure; no device. InternalError only.
Program compile(const Plan& plan, int rank, const CompileOptions& options = {});

/// One step of a Program, in virtual seconds from when the first rank begins the training step; a Post takes no time.
struct SimulatedStep {
  double begin = 0;  ///< seconds
  double end = 0;    ///< seconds
};
/// A predicted training step.
struct Simulated {
  double step_seconds = 0;  ///< from the end of the previous training step on all ranks to the end of this one on all ranks
  std::vector<double> busy_seconds{};       ///< computing, by rank
  std::vector<double> estimated_seconds{};  ///< of these, those of kernels whose times are guesses (Estimate::is_guess), by rank
  std::vector<double> waiting_seconds{};    ///< for other ranks, by rank
  /// Per rank and step of its Program, in the last micro-batch that runs the step; empty unless the options request it.
  std::vector<std::vector<SimulatedStep>> timeline{};
  /// Per rank and step of its Program: seconds in all micro-batches; empty unless the options request the timeline. Those of
  /// kernels sum to busy_seconds.
  std::vector<std::vector<double>> spent{};
  std::vector<SimulatedStep> agreement{};  ///< per rank: agreeing to run the update; 0 seconds where it need not wait
  std::vector<SimulatedStep> norms{};      ///< per rank: summing the norms that the update needs (directs); empty: it needs none
};
/// Options of simulate(). Every field has a default.
struct SimulateOptions {
  bool timeline = false;  ///< whether Simulated::timeline and spent are filled
  int steps = 1;          ///< consecutive training steps, at least 1; the last one is returned
};
/// Runs all ranks' Programs in virtual time.
Simulated simulate(const std::vector<Program>& ranks, const Profile& profile, const SimulateOptions& options = {});

/// @}
}  // namespace motley
