// SPDX-License-Identifier: Apache-2.0
// What the ranks send each other about the run itself, over a transport's messages.
#pragma once
#include <motley/transport.h>

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace motley::control {

// Tags below 0 are reserved for motley: a transport keeps them apart from users' tags and does not count their bytes.
constexpr int kGather = -1, kFarewell = -2, kTrace = -3, kCopies = -4, kVerdict = -5, kFigures = -6, kToFirst = -7, kMeeting = -8;

// Messages in flight, and the memory that they use. If an error leaves some unfinished, the transport keeps that memory: MPI may
// read and write it until they end, and a message to a rank that does not answer can be neither finished nor cancelled for certain.
class InFlight {
 public:
  InFlight(Transport& transport, std::shared_ptr<const void> memory) : transport_(transport), memory_(std::move(memory)) {}
  ~InFlight() {
    if (!open_.empty()) transport_.keep(std::move(memory_));
  }
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;
  // The bytes must be in `memory`.
  void send(int to, int tag, std::span<const std::byte> bytes) { open_.push_back(transport_.send(to, tag, bytes)); }
  void receive(int from, int tag, std::span<std::byte> bytes) { open_.push_back(transport_.receive(from, tag, bytes)); }
  void finish(const std::string& what) {
    wait(transport_, open_, what);
    open_.clear();
  }

 private:
  Transport& transport_;
  std::shared_ptr<const void> memory_;
  std::vector<Transport::Ticket> open_{};
};

// Every rank's bytes on every rank, begun now and finished later: the messages are in flight while the rank computes. One at a time
// per tag.
class Gathering {
 public:
  static constexpr std::size_t kMost = 248;  // bytes of one rank
  // `size`: the total size of what this rank has for the others, which all ranks learn; `mine`: its first bytes.
  Gathering(Transport& transport, int tag, std::span<const std::byte> mine, std::uint64_t size);
  struct Frame {
    std::uint64_t size = 0;
    std::array<std::byte, kMost> bytes{};
  };
  const std::vector<Frame>& finish(const std::string& what);  // by rank

 private:
  std::shared_ptr<std::vector<Frame>> frames_;
  InFlight messages_;
};

// Every rank's value of a trivially copyable type, on every rank. Collective.
template <class T>
std::vector<T> all_of(Transport& transport, const T& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> out;
  for (const auto& bytes : transport.gather_all(std::as_bytes(std::span(&mine, 1)))) {
    check(bytes.size() == sizeof(T), "all ranks send the same control message");
    std::memcpy(&out.emplace_back(), bytes.data(), sizeof(T));
  }
  return out;
}

// Transport::gather_all by point-to-point messages, so that the error names a rank that does not come.
std::vector<std::vector<std::byte>> gather(Transport& transport, std::span<const std::byte> mine);

// Every rank's bytes on rank 0, which handles one rank's at a time, beginning with its own: take(rank, bytes). Collective.
void to_first(Transport& transport, std::span<const std::byte> mine, const std::string& what,
              const std::function<void(int rank, std::span<const std::byte> bytes)>& take);

struct Farewell {
  Verdict worst{};
  bool clean = true;  // no rank has left a message unfinished
};

// The last message of a rank: like agree(), but on a separate tag, so that it may meet ranks in the middle of anything. Nothing if
// the other ranks have not come within `patience_seconds` (0: waits as any wait).
std::optional<Farewell> farewell(Transport& transport, int status, const std::string& text, double patience_seconds);

}  // namespace motley::control
