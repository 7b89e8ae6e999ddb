// SPDX-License-Identifier: Apache-2.0
// Every rank's few bytes on every rank, twice an iteration.
#pragma once
#include <motley/transport.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

namespace motley::svm {

// Ranks of one host write into memory that the others read, and wait for a flag; ranks of several hosts send messages. One rank: no
// work.
class Meeting {
 public:
  static constexpr std::size_t kMost = 112;  // bytes of one rank
  explicit Meeting(Transport& transport);    // collective
  // By rank. Collective.
  template <class T>
  std::vector<T> all(const T& mine) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kMost);
    std::vector<T> out(static_cast<std::size_t>(transport_.size()), mine);
    if (transport_.size() > 1)
      exchange(&mine, sizeof mine, [&](std::size_t rank, const void* from) { std::memcpy(&out[rank], from, sizeof(T)); });
    return out;
  }
  double waiting_seconds() const { return waiting_; }

 private:
  struct Slot {  // two per rank, used in turn
    std::atomic<std::uint64_t> round;
    std::array<std::byte, kMost> bytes;
    std::uint64_t unused;
  };
  using Take = std::function<void(std::size_t rank, const void* from)>;
  void exchange(const void* mine, std::size_t size, const Take& take);
  void await(int rank, const Slot& slot);

  Transport& transport_;
  HeldBytes mine_{};
  std::vector<HeldBytes> slots_{};  // by rank; empty: not all ranks are on one host
  std::uint64_t round_ = 0;
  double waiting_ = 0;
};

}  // namespace motley::svm
