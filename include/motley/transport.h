// SPDX-License-Identifier: Apache-2.0
/// @file
/// Moves bytes between ranks and knows nothing of tensors. Every wait has a deadline and backs off; nothing blocks inside a vendor.
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

/// Is notified of one rank's waits, by the waiting thread and not on its fast path (a run's watch is such an observer).
class WaitObserver {
 public:
  virtual ~WaitObserver() = default;
  /// The wait has lasted 50 ms or more; called again whenever one of its messages finished. `from`: a rank still waited for.
  virtual void waiting(const std::string& what, int from) = 0;
  /// A wait is over; bytes_received: of the transport so far.
  virtual void done(std::int64_t bytes_received) = 0;
  /// Whether the observer learns what rank `from` does (-1: all ranks): if so, it decides which rank hangs, and a wait for `from`
  /// has no deadline.
  virtual bool sees(int from) const = 0;
};

/// Memory that lives as long as its last holder.
struct HeldBytes {
  std::span<std::byte> bytes{};          ///< empty: there is none
  std::shared_ptr<const void> holder{};  ///< of the memory
};

/// One rank's connection to all others. Used by one thread, except for abort().
class Transport {
 public:
  using Ticket = std::uint64_t;  ///< An unfinished message or await.
  virtual ~Transport() = default;
  virtual int rank() const = 0;  ///< this rank, from 0
  virtual int size() const = 0;  ///< number of ranks
  /// Starts one message; the memory stays untouched until test() says done. Messages between two ranks with the same tag arrive in
  /// order. Any size, also 0. `to` may not be this rank.
  virtual Ticket send(int to, int tag, std::span<const std::byte> bytes) = 0;
  /// The other end of send(): as many bytes as are sent.
  virtual Ticket receive(int from, int tag, std::span<std::byte> bytes) = 0;
  virtual bool test(Ticket ticket) = 0;       ///< true once, when done; makes progress; throws when the job is being aborted
  virtual int peer(Ticket ticket) const = 0;  ///< the other rank of an unfinished message; -1: all of them
  virtual bool idle() const = 0;              ///< whether this rank has no unfinished message
  virtual bool takes_device_memory() const { return false; }  ///< messages may begin and end in the memory of this rank's GPU
  /// For control data only (plans, statuses, timings): returns every rank's bytes, on every rank. Collective.
  virtual std::vector<std::vector<std::byte>> gather_all(std::span<const std::byte> mine) = 0;
  /// Memory for exchanged buffers: 4096-byte aligned, zeroed, touched. DeviceError.
  virtual HeldBytes allocate(std::size_t bytes) = 0;
  /// Keeps the memory as long as the transport lives, whatever else releases it, or for ever if messages are unfinished then: for
  /// buffers of messages that an error leaves unfinished.
  void keep(std::shared_ptr<const void> memory) { kept_.push_back(std::move(memory)); }
  /// One number per rank: ranks with the same number map each other's memory (threads of a process, ranks of a host that allows
  /// it). The same on every rank.
  const std::vector<int>& hosts() const { return hosts_; }
  /// Collective over all ranks. `mine` came from allocate(). Returns every rank's memory as mapped here, this rank's included;
  /// empty for a rank of another host. Mapped and touched; a holder here keeps it readable after its rank has released it.
  /// DeviceError.
  virtual std::vector<HeldBytes> share(const HeldBytes& mine) = 0;
  /// Done when the flag, which is in memory of rank `from`, has reached the value. What that rank wrote before it stored the flag
  /// (release) is then visible here. Counts as `bytes` payload bytes received.
  virtual Ticket await(const std::atomic<std::uint64_t>& flag, std::uint64_t value, int from, std::int64_t bytes) = 0;
  /// Wakes or ends all ranks: every wait throws an Error with this text.
  virtual void abort(const Error& error) noexcept = 0;
  std::int64_t bytes_received() const { return bytes_received_; }  ///< payload of finished receives and awaits since construction
  std::uint64_t parts() const { return parts_; }  ///< of messages that have arrived or left since construction: data moves
  bool crowded() const { return crowded_; }  ///< more ranks share this rank's cores than there are cores: waits soon yield them
  /// The observer must outlive the waits; nullptr removes it. wait() has no deadline for a rank that the observer sees: the
  /// observer can tell a slow rank from a hung one.
  void observe(WaitObserver* observer) { observer_ = observer; }
  WaitObserver* observer() const { return observer_; }  ///< the one set by observe(), or nullptr

 protected:
  std::int64_t bytes_received_ = 0;  ///< of bytes_received()
  std::uint64_t parts_ = 0;          ///< of parts()
  bool crowded_ = false;             ///< of crowded()
  std::vector<int> hosts_{};         ///< of hosts()

  /// Never releases the memory given to keep().
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

/// For all waits of this process. Time in which the process was stopped or starved does not count.
/// @param seconds 0: those of the variable MOTLEY_HUNG_SECONDS, or 30 where it is not set; this is so until the first call.
/// UserError: below 0, or not finite
void set_deadline_seconds(double seconds);
double deadline_seconds();  ///< Of set_deadline_seconds(). UserError: MOTLEY_HUNG_SECONDS is not a number above 0.

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
