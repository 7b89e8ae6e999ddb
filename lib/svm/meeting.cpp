// SPDX-License-Identifier: Apache-2.0
#include "svm/meeting.h"

#include <algorithm>

#include "base/clock.h"
#include "mesh/control.h"

namespace motley::svm {

namespace {

constexpr int kSpins = 20000;  // reads of a flag, some 50 us, before the transport's wait, which yields the core

}  // namespace

Meeting::Meeting(Transport& transport) : transport_(transport) {
  const std::vector<int>& hosts = transport.hosts();
  if (transport.size() == 1 || std::any_of(hosts.begin(), hosts.end(), [&](int host) { return host != hosts.front(); })) return;
  mine_ = transport.allocate(2 * sizeof(Slot));
  slots_ = transport.share(mine_);
}

void Meeting::exchange(const void* mine, std::size_t size, const Take& take) {
  const double start = seconds_now();
  round_++;
  if (slots_.empty()) {
    control::Gathering gathering(transport_, control::kMeeting, {static_cast<const std::byte*>(mine), size}, size);
    const auto& frames = gathering.finish("the choice of the next samples");
    for (std::size_t r = 0; r < frames.size(); r++) take(r, frames[r].bytes.data());
  } else {
    const auto slot_of = [&](const HeldBytes& of) -> Slot& { return reinterpret_cast<Slot*>(of.bytes.data())[round_ % 2]; };
    Slot& own = slot_of(mine_);
    std::memcpy(own.bytes.data(), mine, size);
    own.round.store(round_, std::memory_order_release);
    for (int r = 0; r < transport_.size(); r++) {
      if (r == transport_.rank()) continue;
      const Slot& its = slot_of(slots_[static_cast<std::size_t>(r)]);
      await(r, its);
      take(static_cast<std::size_t>(r), its.bytes.data());
    }
  }
  waiting_ += seconds_now() - start;
}

void Meeting::await(int rank, const Slot& slot) {
  for (int i = 0; i < (transport_.crowded() ? 0 : kSpins); i++)
    if (slot.round.load(std::memory_order_acquire) >= round_) return;
  const Transport::Ticket ticket = transport_.await(slot.round, round_, rank, 0);
  wait(transport_, {&ticket, 1}, "the choice of the next samples");
}

}  // namespace motley::svm
