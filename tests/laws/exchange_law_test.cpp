// SPDX-License-Identifier: Apache-2.0
// Exchange law: any layout to any layout and back is the identity; every rank has what its new box says. Buffers hold the global
// linear index.
#include <motley/exchange.h>
#include <motley/layout.h>
#include <motley/runtime.h>

#include <atomic>
#include <catch2/catch.hpp>

#include "laws/random_network.h"

using namespace motley;
using namespace motley::law;

namespace {

using Values = std::vector<std::pair<Box, std::vector<double>>>;  // a rank's boxes, row-major

double global_index(const Shape& shape, const std::vector<Index>& at) {
  Index g = 0;
  for (std::size_t d = 0; d < at.size(); d++) g = g * shape[d].size + at[d];
  return static_cast<double>(g);
}

template <class F>
void for_each(const Box& box, F visit) {
  std::vector<Index> at;
  for (const Range& r : box) at.push_back(r.begin);
  for (Index left = volume(box); left > 0; left--) {
    visit(at);
    for (std::size_t d = box.size(); d-- > 0;) {
      if (++at[d] < box[d].end) break;
      at[d] = box[d].begin;
    }
  }
}

std::size_t offset(const Box& box, const std::vector<Index>& at) {
  Index o = 0;
  for (std::size_t d = 0; d < box.size(); d++) o = o * box[d].size() + at[d] - box[d].begin;
  return static_cast<std::size_t>(o);
}

Values move(Transport& transport, const Values& have, const std::vector<Held>& from, const std::vector<Held>& to) {
  Values out;
  for (const Held& h : to)
    if (h.rank == transport.rank()) out.push_back({h.box, std::vector<double>(static_cast<std::size_t>(volume(h.box)), -1.0)});
  std::vector<std::vector<double>> packets;
  packets.reserve(4096);
  std::vector<Transport::Ticket> tickets;
  std::vector<std::pair<Box, std::size_t>> arriving;
  auto place = [&](const Box& box, const std::vector<double>& values) {
    for (auto& [mine, data] : out)
      if (contains(mine, box)) {
        std::size_t k = 0;
        for_each(box, [&](const auto& at) { data[offset(mine, at)] = values[k++]; });
      }
  };
  for (const BoxMessage& m : copies(from, to)) {
    if (m.from == transport.rank()) {
      std::vector<double> packed;
      for (const auto& [mine, data] : have)
        if (contains(mine, m.box)) for_each(m.box, [&](const auto& at) { packed.push_back(data[offset(mine, at)]); });
      if (m.to == m.from) {
        place(m.box, packed);
        continue;
      }
      packets.push_back(std::move(packed));
      tickets.push_back(transport.send(m.to, 7, std::as_bytes(std::span(packets.back()))));
    } else if (m.to == transport.rank()) {
      packets.emplace_back(static_cast<std::size_t>(volume(m.box)));
      arriving.emplace_back(m.box, packets.size() - 1);
      tickets.push_back(transport.receive(m.from, 7, std::as_writable_bytes(std::span(packets.back()))));
    }
  }
  wait(transport, tickets, "exchange law");
  for (const auto& [box, k] : arriving) place(box, packets[k]);
  return out;
}

std::vector<Held> random_layout(Random& random, const Shape& shape, int ranks) {
  std::vector<Held> out;
  if (chance(random, 0.3)) {  // owners of copies
    for (int r = 0; r < ranks; r++) out.push_back({r, whole(shape)});
    return owners(out);
  }
  const auto dim = static_cast<std::size_t>(pick(random, 0, static_cast<Index>(shape.rank()) - 1));
  const Partition cut = Partition::of(parts(random, shape[dim].size, ranks));
  for (int r = 0; r < ranks; r++) {
    Box box = whole(shape);
    box[dim] = cut.range(r);
    if (volume(box) > 0) out.push_back({r, box});
  }
  return out;
}

}  // namespace

TEST_CASE("exchange law: any layout to any layout, and back", "[law]") {
  for (int number = 0; number < 200; number++) {
    Random random(static_cast<unsigned>(number));
    const Shape shape{{"a", pick(random, 1, 6)}, {"b", pick(random, 1, 7)}, {"c", pick(random, 1, 5)}};
    const int ranks = static_cast<int>(pick(random, 1, 4));
    const auto from = random_layout(random, shape, ranks), to = random_layout(random, shape, ranks);
    std::atomic<int> wrong{0};
    run_ranks_in_memory(ranks, [&](Runtime& rt) {
      Values mine;
      for (const Held& h : from)
        if (h.rank == rt.rank()) {
          mine.push_back({h.box, {}});
          for_each(h.box, [&](const auto& at) { mine.back().second.push_back(global_index(shape, at)); });
        }
      const Values there = move(rt.transport(), mine, from, to);
      for (const auto& [box, values] : there) for_each(box, [&](const auto& at) { wrong += values[offset(box, at)] != global_index(shape, at); });
      wrong += move(rt.transport(), there, to, from) != mine;
    });
    INFO("case " << number);
    CHECK(wrong == 0);
  }
}
