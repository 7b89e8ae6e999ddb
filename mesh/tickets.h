// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/error.h>
#include <motley/transport.h>

#include <atomic>
#include <cstdint>
#include <vector>

namespace motley {

// A flag in shared memory that an unfinished operation waits for; none: it does not wait for a flag.
struct Awaited {
  const std::atomic<std::uint64_t>* flag = nullptr;
  std::uint64_t value = 0;
  std::int64_t bytes = 0;
  bool waits() const { return flag != nullptr; }
  bool there() const { return flag->load(std::memory_order_acquire) >= value; }
};

// Unfinished operations by ticket. A ticket is slot + generation, so that a ticket used twice is detected.
template <class Operation>
class Tickets {
 public:
  Transport::Ticket add(Operation operation) {
    if (free_.empty()) {
      free_.push_back(slots_.size());
      slots_.emplace_back();
    }
    const std::size_t at = free_.back();
    free_.pop_back();
    slots_[at].operation = std::move(operation);
    slots_[at].open = true;
    return (Transport::Ticket{slots_[at].generation} << 32U) | at;
  }
  Operation& at(Transport::Ticket ticket) { return slots_[find(ticket)].operation; }
  const Operation& at(Transport::Ticket ticket) const { return slots_[find(ticket)].operation; }
  void remove(Transport::Ticket ticket) {
    const std::size_t at = find(ticket);
    slots_[at].operation = {};
    slots_[at].open = false;
    slots_[at].generation++;
    free_.push_back(at);
  }
  bool empty() const { return free_.size() == slots_.size(); }

 private:
  struct Slot {
    Operation operation{};
    std::uint32_t generation = 0;  // may wrap around: no ticket lives so long
    bool open = false;
  };
  std::size_t find(Transport::Ticket ticket) const {
    const std::size_t at = ticket & 0xffffffffU;
    check(at < slots_.size() && slots_[at].open && slots_[at].generation == ticket >> 32U,
          "a ticket is tested until it is done, then no more");
    return at;
  }
  std::vector<Slot> slots_;
  std::vector<std::size_t> free_;
};

}  // namespace motley
