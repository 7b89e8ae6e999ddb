// SPDX-License-Identifier: Apache-2.0
// N ranks as threads of one process. A message is copied twice, so that no rank ever accesses memory that another rank may release:
// a rank that fails may unwind at any time. What is shared is held by all of them.
#include <motley/transport.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "mesh/control.h"
#include "mesh/shared_memory.h"
#include "mesh/tickets.h"

namespace motley {

namespace {

using SentBytes = std::vector<std::byte>;

// The messages that arrive at one rank.
struct Mailbox {
  struct Channel {
    std::uint64_t sent = 0, wanted = 0;          // number of messages sent, number of receives started
    std::map<std::uint64_t, SentBytes> waiting;  // by their number
  };
  std::mutex mutex;
  std::map<std::pair<int, int>, Channel> channels;  // by sender and tag
  std::atomic<std::uint64_t> arrivals{0};           // changes with each message: allows a check without the lock
};

struct Hub {
  explicit Hub(int ranks) : mailboxes(static_cast<std::size_t>(ranks)), shared(mailboxes.size()) {}
  std::vector<Mailbox> mailboxes;
  std::mutex mutex;
  std::vector<HeldBytes> shared;  // by rank, during share(); guarded by the mutex
  std::atomic<bool> aborted{false};
  Exit code = Exit::ok;  // of the first rank that aborted, guarded by the mutex
  std::string text;
};

struct MemoryOperation {
  int peer = -1, tag = 0;
  bool receives = false;
  std::uint64_t number = 0, seen = 0;  // number of the message in its channel; arrivals at the last check
  std::span<std::byte> into{};
  Awaited flag{};
};

class MemoryTransport final : public Transport {
 public:
  MemoryTransport(std::shared_ptr<Hub> hub, int rank, bool crowded) : hub_(std::move(hub)), rank_(rank) {
    crowded_ = crowded;
    hosts_.assign(hub_->mailboxes.size(), 0);
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(hub_->mailboxes.size()); }

  Ticket send(int to, int tag, std::span<const std::byte> bytes) override {
    Mailbox& box = hub_->mailboxes[other(to)];
    SentBytes payload(bytes.begin(), bytes.end());
    {
      const std::lock_guard lock(box.mutex);
      Mailbox::Channel& channel = box.channels[{rank_, tag}];
      channel.waiting.emplace(channel.sent++, std::move(payload));
    }
    box.arrivals.fetch_add(1, std::memory_order_release);
    return tickets_.add({.peer = to, .tag = tag});
  }

  Ticket receive(int from, int tag, std::span<std::byte> bytes) override {
    static_cast<void>(other(from));
    Mailbox& box = mine();
    const std::lock_guard lock(box.mutex);
    const std::uint64_t number = box.channels[{from, tag}].wanted++;
    return tickets_.add({.peer = from, .tag = tag, .receives = true, .number = number, .seen = kNever, .into = bytes});
  }

  bool test(Ticket ticket) override {
    if (hub_->aborted.load(std::memory_order_acquire)) {
      const std::lock_guard lock(hub_->mutex);
      throw Error(hub_->code, hub_->text);
    }
    MemoryOperation& op = tickets_.at(ticket);
    if (op.receives) {
      const std::optional<SentBytes> payload = take(op);
      if (!payload) return false;
      const MemoryOperation ended = op;
      tickets_.remove(ticket);  // a message of the wrong size has ended as well
      copy(*payload, ended);
      return true;
    }
    if (op.flag.waits()) {
      if (!op.flag.there()) return false;
      bytes_received_ += op.flag.bytes;
    }
    tickets_.remove(ticket);
    return true;
  }

  int peer(Ticket ticket) const override { return tickets_.at(ticket).peer; }
  bool idle() const override { return tickets_.empty(); }

  std::vector<std::vector<std::byte>> gather_all(std::span<const std::byte> bytes) override {
    return control::gather(*this, bytes);
  }

  HeldBytes allocate(std::size_t bytes) override {
    auto made = std::make_shared<const SharedMemory>(bytes);
    return {made->bytes(), made};
  }

  std::vector<HeldBytes> share(const HeldBytes& mine) override {
    const auto locked = [&](auto&& use) {
      const std::lock_guard lock(hub_->mutex);
      return use(hub_->shared);
    };
    const auto me = static_cast<std::size_t>(rank_);
    locked([&](auto& shared) { shared[me] = mine; });
    static_cast<void>(gather_all({}));
    std::vector<HeldBytes> all = locked([](auto& shared) { return shared; });
    static_cast<void>(gather_all({}));
    locked([&](auto& shared) { shared[me] = {}; });
    return all;
  }

  Ticket await(const std::atomic<std::uint64_t>& flag, std::uint64_t value, int from, std::int64_t bytes) override {
    static_cast<void>(other(from));
    return tickets_.add({.peer = from, .flag = {&flag, value, bytes}});
  }

  void abort(const Error& error) noexcept override {
    const std::lock_guard lock(hub_->mutex);
    if (hub_->aborted) return;
    hub_->code = error.code();
    hub_->text = error.what();
    hub_->aborted.store(true, std::memory_order_release);
  }

 private:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  Mailbox& mine() { return hub_->mailboxes[static_cast<std::size_t>(rank_)]; }

  std::size_t other(int rank) const {
    check(rank >= 0 && rank < size() && rank != rank_, "a message goes to another rank of the transport");
    return static_cast<std::size_t>(rank);
  }

  std::optional<SentBytes> take(MemoryOperation& op) {
    Mailbox& box = mine();
    const std::uint64_t arrivals = box.arrivals.load(std::memory_order_acquire);
    if (arrivals == op.seen) return std::nullopt;
    const std::lock_guard lock(box.mutex);
    Mailbox::Channel& channel = box.channels[{op.peer, op.tag}];
    auto found = channel.waiting.extract(op.number);
    if (found.empty()) {
      op.seen = arrivals;
      return std::nullopt;
    }
    return std::move(found.mapped());
  }

  void copy(const SentBytes& payload, const MemoryOperation& op) {
    if (payload.size() != op.into.size())
      throw InternalError("rank " + std::to_string(op.peer) + " sent " + std::to_string(payload.size()) + " bytes with tag " +
                          std::to_string(op.tag) + ", rank " + std::to_string(rank_) + " expected " +
                          std::to_string(op.into.size()));
    std::copy(payload.begin(), payload.end(), op.into.begin());
    if (op.tag >= 0) bytes_received_ += static_cast<std::int64_t>(payload.size());
  }

  std::shared_ptr<Hub> hub_;
  int rank_;
  Tickets<MemoryOperation> tickets_;
};

bool more_than_cores(int ranks) {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 && ranks > CPU_COUNT(&set);
}

}  // namespace

std::vector<std::unique_ptr<Transport>> in_memory(int ranks) {
  check(ranks >= 1, "there is at least one rank");
  auto hub = std::make_shared<Hub>(ranks);
  std::vector<std::unique_ptr<Transport>> out;
  for (int r = 0; r < ranks; r++) out.push_back(std::make_unique<MemoryTransport>(hub, r, more_than_cores(ranks)));
  return out;
}

}  // namespace motley
