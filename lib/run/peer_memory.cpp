// SPDX-License-Identifier: Apache-2.0
#include "run/peer_memory.h"

#include <motley/error.h>

#include <cstring>
#include <map>
#include <new>
#include <tuple>

#include "base/at.h"
#include "base/store_fence.h"
#include "program/memory.h"

namespace motley {

namespace {

// What each rank sends the others once: where its flags, and each of its window pieces, begin in its memory.
struct Shown {
  std::int32_t exchange = 0, to = 0;
  std::uint64_t offset = 0;
};

}  // namespace

PeerMemory::PeerMemory(const Program& program, Transport& transport, const HeldBytes& memory, std::span<std::byte> flags)
    : transport_(transport),
      ranks_(static_cast<std::size_t>(transport.size())),
      memory_(transport.share(memory)),
      buffers_(program.buffers.size()) {
  std::vector<Shown> mine{{.offset = static_cast<std::uint64_t>(flags.data() - memory.bytes.data())}};
  for (const ProgramStep& s : program.steps)
    if (const auto* post = std::get_if<Post>(&s.what))
      for (const Piece& p : post->sends) {
        const Buffer& b = at(program.buffers, p.at.buffer);
        const Index here =
            b.space == Space::arena ? b.offset + p.at.element * static_cast<Index>(bytes_of(b.dtype)) : 0;  // 0: not used
        if (p.window) mine.push_back({post->exchange, p.peer, static_cast<std::uint64_t>(here)});
      }
  std::map<std::tuple<int, int, int>, std::byte*> shown;  // (from, exchange, piece)
  const auto all = transport.gather_all(std::as_bytes(std::span(mine)));
  for (std::size_t r = 0; r < ranks_; r++) {
    std::vector<Shown> its(all[r].size() / sizeof(Shown));
    check(!its.empty(), "all ranks bind the same plan");
    std::memcpy(its.data(), all[r].data(), all[r].size());
    flags_.push_back(its.front().offset);
    std::map<int, int> count;
    for (std::size_t i = 1; i < its.size(); i++)
      if (its[i].to == program.rank)
        shown[{static_cast<int>(r), its[i].exchange, count[its[i].exchange]++}] = memory_[r].bytes.data() + its[i].offset;
  }
  for (std::size_t i = 0; i < program.buffers.size(); i++) {
    const Buffer& b = program.buffers[i];
    if (b.space != Space::peer) continue;
    const auto found = shown.find({b.peer, b.exchange, b.piece});
    check(found != shown.end(), "every peer buffer is shown by its rank");
    buffers_[i] = found->second;
  }
}

std::atomic<std::uint64_t>& PeerMemory::flag(int owner, int exchange) const {
  const auto o = static_cast<std::size_t>(owner);
  std::byte* found =
      memory_[o].bytes.data() + flags_[o] + static_cast<std::size_t>(exchange) * static_cast<std::size_t>(kFlagBytes);
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
  return *std::launder(reinterpret_cast<std::atomic<std::uint64_t>*>(found));
}

void PeerMemory::signal(int exchange) const {
  finish_stores();
  flag(transport_.rank(), exchange).store(run_, std::memory_order_release);
}

Transport::Ticket PeerMemory::await(int exchange, int peer, Index bytes) const {
  return transport_.await(flag(peer, exchange), run_, peer, bytes);
}

}  // namespace motley
