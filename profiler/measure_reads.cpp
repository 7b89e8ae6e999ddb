// SPDX-License-Identifier: Apache-2.0
#include <motley/error.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "base/quantile.h"
#include "base/store_fence.h"
#include "mesh/control.h"
#include "profiler/measure_links.h"
#include "profiler/run_clock.h"

namespace motley {

namespace {

constexpr int kReadsTag = 9002;
constexpr double kNothing = 1e-9;       // seconds; a line is fitted by relative errors
constexpr std::size_t kLineBytes = 64;  // a flag of its own cache line
constexpr int kExchanges = 400;

void write(std::span<std::byte> bytes, int round) {
  std::memset(bytes.data(), round & 0x7f, bytes.size());
}

// Reads all bytes; the sum keeps the compiler from removing the loop.
std::uint64_t read(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i + sizeof sum <= bytes.size(); i += sizeof sum) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, sizeof word);
    sum += word;
  }
  return sum;
}

double seconds_of_reading(std::span<const std::byte> bytes, std::uint64_t& sum) {
  const double start = seconds_now();
  sum += read(bytes);
  return seconds_now() - start;
}

// Both memories end with a flag.
class PairReader {
 public:
  PairReader(Transport& transport, int peer, std::span<std::byte> mine, std::span<std::byte> theirs)
      : transport_(transport), peer_(peer), mine_(mine), theirs_(theirs) {}

  // Median over rounds of the time to read what the peer has just written, less the time to read what this rank has just written.
  // Both ranks at once, as in a step.
  double extra(std::size_t bytes, int rounds) {
    std::vector<double> more;
    for (int round = 0; round <= rounds; round++) {  // the first is untimed
      write(mine_.first(bytes), round);
      meet();
      const double there = seconds_of_reading(theirs_.first(bytes), sum_);
      meet();
      write(mine_.first(bytes), round + 1);
      const double here = seconds_of_reading(mine_.first(bytes), sum_);
      if (round > 0) more.push_back(there - here);
    }
    return std::max(kNothing, quantile(more, 0.5));
  }
  // Median time of an exchange without bytes, as an executor runs it: the stores before it are completed, the own flag is set, the
  // peer's flag of the same exchange is awaited. Both ranks at once. `done`: exchanges with all peers so far.
  double exchange(std::uint64_t done) {
    std::atomic<std::uint64_t>&own = flag_at_end(mine_), &other = flag_at_end(theirs_);
    own.store(done, std::memory_order_release);
    meet();
    std::vector<double> took;
    double begin = seconds_now();
    for (std::uint64_t number = done + 1; number <= done + kExchanges; number++) {
      finish_stores();
      own.store(number, std::memory_order_release);
      const Transport::Ticket there = transport_.await(other, number, peer_, 0);
      wait(transport_, {&there, 1}, "measuring exchanges");
      const double end = seconds_now();
      took.push_back(end - begin);
      begin = end;
    }
    return quantile(took, 0.5);
  }
  std::uint64_t sum() const { return sum_; }

 private:
  static std::atomic<std::uint64_t>& flag_at_end(std::span<std::byte> memory) {
    return *std::launder(reinterpret_cast<std::atomic<std::uint64_t>*>(memory.last(kLineBytes).data()));
  }
  void meet() {
    const auto memory = std::make_shared<std::array<std::byte, 2>>();
    control::InFlight messages(transport_, memory);
    messages.send(peer_, kReadsTag, {memory->data(), 1});
    messages.receive(peer_, kReadsTag, {memory->data() + 1, 1});
    messages.finish("measuring reads in place");
  }
  Transport& transport_;
  int peer_;
  std::span<std::byte> mine_, theirs_;
  std::uint64_t sum_ = 0;
};

}  // namespace

void measure_reads(Transport& transport, std::vector<Link>& links, const LinkOptions& options) {
  const int ranks = transport.size(), me = transport.rank();
  const std::vector<int>& hosts = transport.hosts();
  auto share = [&](int a, int b) { return a != b && hosts[static_cast<std::size_t>(a)] == hosts[static_cast<std::size_t>(b)]; };
  bool any = false;
  for (int a = 0; a < ranks; a++)
    for (int b = 0; b < a; b++) any = any || share(a, b);
  if (!any) return;
  const auto most = static_cast<std::size_t>(std::max(Index{64}, options.most_bytes));
  const HeldBytes mine = transport.allocate(most + kLineBytes);
  const std::vector<HeldBytes> all = transport.share(mine);
  using Points = std::vector<std::pair<Index, double>>;  // the first one: of an exchange without bytes
  std::uint64_t exchanges = 0;
  for (int a = 0; a < ranks; a++)
    for (int b = a + 1; b < ranks; b++) {
      if (!share(a, b)) continue;
      Points points;
      if (me == a || me == b) {
        const int peer = me == a ? b : a;
        PairReader pair(transport, peer, mine.bytes.first(most + kLineBytes),
                        all[static_cast<std::size_t>(peer)].bytes.first(most + kLineBytes));
        points.emplace_back(0, pair.exchange(exchanges));
        for (std::size_t bytes = 64; bytes <= most; bytes *= 4)
          points.emplace_back(static_cast<Index>(bytes), pair.extra(bytes, std::min(options.most_rounds, 25)));
        check(pair.sum() > 0, "what was read was written");
      }
      exchanges += kExchanges;
      // The other ranks wait here, so that pairs do not disturb each other.
      const auto bytes = transport.gather_all(std::as_bytes(std::span(points)));
      for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {  // measured by rank `to`
        const auto& heard = bytes[static_cast<std::size_t>(to)];
        Points its(heard.size() / sizeof(Points::value_type));
        std::memcpy(static_cast<void*>(its.data()), heard.data(), heard.size());
        const double nothing = its.front().second;
        its.erase(its.begin());
        for (Link& link : links)
          if (link.from == from && link.to == to) {
            link.exchange_seconds = nothing;
            link.in_place = fit_link(its, 3);
          }
      }
    }
}

}  // namespace motley
