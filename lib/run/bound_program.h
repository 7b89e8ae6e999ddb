// SPDX-License-Identifier: Apache-2.0
// A Program bound to this rank's memory, kernels and messages: what an Executor runs.
#pragma once
#include <motley/executor.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/at.h"
#include "run/peer_memory.h"
#include "run/staged_exchanges.h"
#include "run/step_trace.h"

namespace motley {

struct Executor::Bound {
  struct Message {
    int peer;
    std::span<std::byte> bytes;
    bool window = false;
  };
  struct Step {
    enum class Kind : std::uint8_t { kernel, post, wait } kind = Kind::kernel;
    Kernel* kernel = nullptr;
    std::vector<void*> operands{};
    int exchange = 0;
    std::vector<Message> sends{}, receives{};
    const char* name = "";
    bool signals = false;      // a post with sends that are read in place
    bool flags_alone = false;  // a post that moves no bytes: its tens of nanoseconds count as the next step's
    double seconds = 0;
    Index runs = 0;
    Kernel* last = nullptr;                      // of a chain: kernel of the last block; `kernel` is for each of the others
    std::vector<Index> advance{};                // of a chain: bytes from one block to the next, by operand
    std::unique_ptr<DeviceMemory::Mark> end{};   // on a device: set after the step in the compute queue
    const DeviceMemory::Mark* before = nullptr;  // the mark of what it ran after
  };
  struct Fed {
    const FedBuffer* feed;
    std::span<std::byte> staging;  // where the data is first read to, row-major
    Kernel* reorder = nullptr;     // none: the data is used in place
    std::vector<void*> operands{};
  };

  const Program& program;
  Backend& backend;
  Transport& transport;
  State& state;
  const std::string slot;  // the State's slot that serves as the parameters
  DeviceMemory* const device = backend.device_memory();
  std::unordered_map<std::size_t, std::vector<std::pair<KernelSpec, std::unique_ptr<Kernel>>>> kernels{};
  std::vector<std::byte*> owned{};                   // by buffer: in the State
  std::map<int, std::shared_ptr<std::byte>> kept{};  // by buffer: Space::kept
  std::vector<Step> steps{};
  std::vector<const Chain*> chains{};   // by first step; null: none begins there
  std::vector<double> chain_seconds{};  // of the running chain, by step
  std::vector<Fed> fed{};
  HeldBytes held{};               // allocated by the transport: what peers read
  std::span<std::byte> memory{};  // arena and workspace
  std::byte* workspace = nullptr;
  std::unique_ptr<PeerMemory> peers{};  // set if the Program has windows
  bool partial = false;                 // the last run ended before the update
  bool follows = false;                 // a later micro-batch is running: it has the parameters that the first one received
  bool steady = false;                  // one micro-batch: this run has the frozen parameters that an earlier one received
  std::optional<std::uint64_t> seen{};  // State::changes() of the parameters that this rank has received
  bool in_run = false;                  // still set if an error ended a run in the middle
  std::vector<std::vector<std::byte>> staging{};
  std::vector<DeviceMemory::Block> blocks{};  // on a device: hold `memory` and the reordered feeds
  std::unique_ptr<StagedExchanges> staged{};  // on a device
  std::unique_ptr<DeviceMemory::Mark> start{};
  DeviceMemory::Mark* last = nullptr;                     // the last mark set in the compute queue
  std::vector<std::vector<Transport::Ticket>> tickets{};  // by exchange
  std::vector<int> pending{};                             // exchanges posted and not waited for
  std::function<void(const char*)> callback{};
  StepTrace* trace = nullptr;

  // Messages that an error leaves unfinished continue to read and write the buffers.
  ~Bound() {
    if (!in_run && pending.empty()) return;
    if (staged != nullptr) transport.keep(staged->pinned());
    transport.keep(held.holder);
    if (peers != nullptr)
      for (const HeldBytes& its : peers->memory()) transport.keep(its.holder);
    for (const DeviceMemory::Block& block : blocks) transport.keep(block);
    for (const StoredBox& box : state.stored()) transport.keep(box.memory);
    for (const auto& [buffer, block] : kept) transport.keep(block);
  }

  Kernel* kernel(const KernelSpec& spec, const std::string& implementation = {}) {  // one implementation per spec
    auto& same = kernels[hash_of(spec)];
    for (auto& [known, made] : same)
      if (known == spec) return made.get();
    same.emplace_back(spec, implementation.empty() ? backend.compile(spec) : backend.compile_as(spec, implementation));
    return same.back().second.get();
  }
  std::byte* address(const Place& place) const {
    const Buffer& b = at(program.buffers, place.buffer);
    std::byte* base = b.space == Space::state  ? at(owned, place.buffer)
                      : b.space == Space::kept ? kept.at(place.buffer).get()
                      : b.space == Space::peer ? peers->address(place.buffer)
                                               : memory.data() + b.offset;
    return base + place.element * static_cast<Index>(bytes_of(b.dtype));
  }
  void take_memory();
  void find_state();
  void bind_steps();
  void bind_feeds();
  void stage();
  void meet();
  Ran run_to_end(std::size_t from);
  std::vector<double> update_values(double learning_rate, double factor_of_gradients, Index step) const;  // of program.scalars
  void share_ratios();  // collective: of the norms of parameters and of their directions
  void begin();
  double run_chain(const Chain& chain, double begin);  // returns its end time
  double perform(Step& step);                          // returns the seconds of a wait in which this rank's device was working
  void progress();                                     // the pending exchanges
  void settle(std::size_t from, std::size_t to, double begin);
  bool is_done(std::size_t i) const { return (follows || steady) && program.steps[i].once; }  // by the first micro-batch or run
  void record(std::size_t i, double from, double to) {
    if (trace != nullptr) trace->program_step(i, from, to);
  }
  // A buffer's bytes where the host can read them; a device's bytes are copied to `room`.
  const std::byte* host_bytes(int buffer, std::vector<std::byte>& room) const;
  Ran run(std::size_t from, std::size_t to, const std::function<void(int)>& after = {});
};

}  // namespace motley
