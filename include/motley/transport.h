// SPDX-License-Identifier: Apache-2.0
/// @file
/// Moves bytes between ranks; knows no tensor. Every wait has a deadline and backs off; nothing blocks inside a vendor.
#pragma once
#include <motley/dims.h>
#include <motley/error.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace motley {
/// @addtogroup exchanges
/// @{

/// Gets one rank's waits: called by the waiting thread, not on its fast path (the watch of a run is one).
class WaitObserver {
 public:
  virtual ~WaitObserver() = default;
  /// The wait has lasted 50 ms or more; called again whenever a message of it finished. `from`: a rank still waited for.
  virtual void waiting(const std::string& what, int from) = 0;
  /// A wait is over; bytes_received of the transport by now.
  virtual void done(std::int64_t bytes_received) = 0;
  /// Whether it learns what rank `from` does (-1: all ranks): then it decides who hangs, and a wait for that rank has no deadline.
  virtual bool sees(int from) const = 0;
};

/// Memory that lives as long as its last holder.
struct HeldBytes {
  std::span<std::byte> bytes{};          ///< empty: there is none
  std::shared_ptr<const void> holder{};  ///< of the memory
};

/// One rank's connection to all others. Used by one thread, but for abort().
class Transport {
 public:
  using Ticket = std::uint64_t;  ///< An unfinished message or await.
  virtual ~Transport() = default;
  virtual int rank() const = 0;  ///< this rank, from 0
  virtual int size() const = 0;  ///< number of ranks
  /// Starts one message; the memory stays untouched until test() says done. Messages between two ranks with one tag arrive
  /// in order. Any size, 0 too. `to` may not be this rank.
  virtual Ticket send(int to, int tag, std::span<const std::byte> bytes) = 0;
  /// The other end of send(): as many bytes as are sent, or fewer.
  virtual Ticket receive(int from, int tag, std::span<std::byte> bytes) = 0;
  virtual bool test(Ticket ticket) = 0;       ///< true once, when done; makes progress; throws when the job is being aborted
  virtual int peer(Ticket ticket) const = 0;  ///< the other rank of an unfinished message; -1: all of them
  virtual bool idle() const = 0;              ///< whether this rank has no unfinished message
  virtual bool takes_device_memory() const { return false; }  ///< messages may begin and end in the memory of this rank's GPU
  /// Control only (plans, statuses, timings): every rank's bytes, on every rank. Collective.
  virtual std::vector<std::vector<std::byte>> gather_all(std::span<const std::byte> mine) = 0;
  /// Memory for exchanged buffers: 4096-byte aligned, zeroed, touched. DeviceError.
  virtual HeldBytes allocate(std::size_t bytes) = 0;
  /// The memory lives as long as the transport, whatever else releases it, or for ever where messages are unfinished then: for
  /// buffers of messages that an error leaves unfinished.
  void keep(std::shared_ptr<const void> memory) { kept_.push_back(std::move(memory)); }
  /// Per rank a number: ranks with one number map each other's memory (threads of a process, ranks of a host that allows it).
  /// The same on every rank.
  const std::vector<int>& hosts() const { return hosts_; }
  /// Collective over all ranks. `mine` came from allocate(). Every rank's memory as this rank sees it, itself included; empty:
  /// a rank of another host. Mapped and touched; a holder here keeps it readable when its rank has released it. DeviceError.
  virtual std::vector<HeldBytes> share(const HeldBytes& mine) = 0;
  /// Done when the flag, which is in memory of rank `from`, has reached the value. What that rank wrote before it stored the
  /// flag (release) is then seen here. Counts as so many payload bytes received.
  virtual Ticket await(const std::atomic<std::uint64_t>& flag, std::uint64_t value, int from, std::int64_t bytes) = 0;
  /// Wakes or ends all ranks: every wait throws an Error with this text.
  virtual void abort(const Error& error) noexcept = 0;
  std::int64_t bytes_received() const { return bytes_received_; }  ///< payload of finished receives and awaits since construction
  bool crowded() const { return crowded_; }  ///< more ranks on this rank's cores than there are cores: waits give them up soon
  /// The observer must outlive the waits; nullptr ends it. For a rank that it sees wait() has no deadline: the observer
  /// knows a slow rank from a hung one.
  void observe(WaitObserver* observer) { observer_ = observer; }
  WaitObserver* observer() const { return observer_; }  ///< of observe(), or nullptr

 protected:
  std::int64_t bytes_received_ = 0;  ///< of bytes_received()
  bool crowded_ = false;             ///< of crowded()
  std::vector<int> hosts_{};         ///< of hosts()

  /// What keep() got is never released.
  void leak_kept();

 private:
  WaitObserver* observer_ = nullptr;
  std::vector<std::shared_ptr<const void>> kept_{};
};

/// Polls tickets and `also` (a device's events) until all are done. Spins, then yields, then sleeps briefly when ranks on
/// this host exceed its cores. `what` names the wait in the error after the deadline (deadline_seconds() without progress of any
/// rank).
void wait(Transport& transport, std::span<const Transport::Ticket> tickets, const std::string& what,
          const std::function<bool()>& also = {});

/// For all waits of this process; 30 s unless set. Time in which the process was stopped or starved does not count.
void set_deadline_seconds(double seconds);
double deadline_seconds();  ///< Of set_deadline_seconds().

/// What all ranks agree on.
struct Verdict {
  int status = 0;      ///< the worst (greatest) of all ranks
  int rank = -1;       ///< the first that has it
  std::string text{};  ///< its text
};
/// The worst status of all ranks, the first rank that has it and its text; the same on every rank. Collective.
Verdict agree(Transport& transport, int status, const std::string& text = {});

/// N ranks as threads of this process; transports[r] is used by one thread.
std::vector<std::unique_ptr<Transport>> in_memory(int ranks);

/// @}
}  // namespace motley
