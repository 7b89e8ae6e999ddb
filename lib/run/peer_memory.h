// SPDX-License-Identifier: Apache-2.0
// Memory of the ranks of one host that read each other's in place: where a Program's peer buffers are, and which rank has written
// or read what. Each rank has one flag per exchange, for all ranks that wait for it: the run's number, stored after the fact
// (release), and seen by others before they act on it (acquire). A number only grows, so a run that stopped on its way leaves
// nothing that must be reset. A reader acknowledges by a flag of its own, so that a wait names the rank that has not.
#pragma once
#include <motley/program.h>
#include <motley/transport.h>

#include <span>
#include <vector>

#include "base/at.h"

namespace motley {

class PeerMemory {
 public:
  // Collective. memory: this rank's, from Transport::allocate, with its arena first; flags: flag_bytes() in it, zero.
  PeerMemory(const Program& program, Transport& transport, const HeldBytes& memory, std::span<std::byte> flags);
  std::byte* address(int buffer) const { return at(buffers_, buffer); }  // of a peer buffer
  // Called before the forward half. A complete run leaves no read unacknowledged; after a partial run all ranks synchronize first.
  void next_run() { run_++; }
  void signal(int exchange) const;  // to all peers: this rank has written, or read
  Transport::Ticket await(int exchange, int peer, Index bytes) const;
  const std::vector<HeldBytes>& memory() const { return memory_; }  // of all ranks, as mapped here

 private:
  std::atomic<std::uint64_t>& flag(int owner, int exchange) const;
  Transport& transport_;
  std::size_t ranks_;
  std::vector<HeldBytes> memory_;   // per rank
  std::vector<std::size_t> flags_;  // per rank: position of its flags
  std::vector<std::byte*> buffers_;
  std::uint64_t run_ = 0;
};

}  // namespace motley
