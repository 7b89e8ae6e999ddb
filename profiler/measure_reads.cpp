// SPDX-License-Identifier: Apache-2.0
#include <motley/error.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>

#include "mesh/control.h"
#include "profiler/measure_links.h"
#include "profiler/run_clock.h"

namespace motley {

namespace {

constexpr int kReadsTag = 9002;
constexpr double kNothing = 1e-9;  // seconds; a line is fitted by relative errors

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

class PairReader {
 public:
  PairReader(Transport& transport, int peer, std::span<std::byte> mine, std::span<const std::byte> theirs)
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
    std::nth_element(more.begin(), more.begin() + static_cast<std::ptrdiff_t>(more.size() / 2), more.end());
    return std::max(kNothing, more[more.size() / 2]);
  }
  std::uint64_t sum() const { return sum_; }

 private:
  void meet() {
    const auto memory = std::make_shared<std::array<std::byte, 2>>();
    control::InFlight messages(transport_, memory);
    messages.send(peer_, kReadsTag, {memory->data(), 1});
    messages.receive(peer_, kReadsTag, {memory->data() + 1, 1});
    messages.finish("measuring reads in place");
  }
  Transport& transport_;
  int peer_;
  std::span<std::byte> mine_;
  std::span<const std::byte> theirs_;
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
  const HeldBytes mine = transport.allocate(most);
  const std::vector<HeldBytes> all = transport.share(mine);
  using Points = std::vector<std::pair<Index, double>>;
  for (int a = 0; a < ranks; a++)
    for (int b = a + 1; b < ranks; b++) {
      if (!share(a, b)) continue;
      Points points;
      if (me == a || me == b) {
        const int peer = me == a ? b : a;
        PairReader pair(transport, peer, mine.bytes, all[static_cast<std::size_t>(peer)].bytes);
        for (std::size_t bytes = 64; bytes <= most; bytes *= 4)
          points.emplace_back(static_cast<Index>(bytes), pair.extra(bytes, std::min(options.most_rounds, 25)));
        check(pair.sum() > 0, "what was read was written");
      }
      // The other ranks wait here, so that pairs do not disturb each other.
      const auto bytes = transport.gather_all(std::as_bytes(std::span(points)));
      for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {  // measured by rank `to`
        const auto& heard = bytes[static_cast<std::size_t>(to)];
        Points its(heard.size() / sizeof(Points::value_type));
        std::memcpy(static_cast<void*>(its.data()), heard.data(), heard.size());
        for (Link& link : links)
          if (link.from == from && link.to == to) link.in_place = fit_link(its, 3);
      }
    }
}

}  // namespace motley
