// SPDX-License-Identifier: Apache-2.0
// A change of layout as a list of box messages (how they go: schedule.h). Pure: nothing here talks to a transport.
#pragma once
#include <motley/dims.h>
#include <motley/dtype.h>

#include <span>
#include <string>
#include <vector>

namespace motley {

// A rank holds (or is asked for) this box. A rank may hold several boxes of one tensor.
struct Held {
  int rank = 0;
  Box box{};
  auto operator<=>(const Held&) const = default;
};

// One box from one rank to another (or to itself: then nothing travels). Writers: which of the tensor's writing passes
// have a term in it at `from`; they are added in this order before anything is sent. Empty for a copy of finished values.
struct BoxMessage {
  int from = 0, to = 0;
  Box box{};
  std::vector<int> writers{};
  int tree = -1;  // in a schedule's stage: which tree it belongs to (schedule.h)
  auto operator<=>(const BoxMessage&) const = default;
};

// The largest boxes that lie in the same set of ranks' boxes, with those ranks in order.
struct Atom {
  Box box{};
  std::vector<int> ranks{};
};
std::vector<Atom> atoms(std::span<const Held> held);

// One owner per element: split space into atoms (largest boxes that lie in the same set of ranks' boxes); the ranks of an
// atom share it evenly along its longest dim (first of equals), in rank order. Sorted by rank. A rank owns only what it holds.
std::vector<Held> owners(std::span<const Held> held);

// Who sends what so that every box of `to` is filled from `from` (which covers it, each element once). Sorted by (to, box, from).
std::vector<BoxMessage> copies(std::span<const Held> from, std::span<const Held> to);

// As copies(), where ranks of `from` may hold the same elements: a rank keeps what it has; what it lacks comes from the rank that has
// most of it (of equals: who has given least so far, then the first). Every element arrives once. UserError: nobody holds it.
std::vector<BoxMessage> fill(std::span<const Held> from, std::span<const Held> to);

// `boxes` without what `removed` covers, as disjoint boxes.
std::vector<Box> subtract(const Box& box, std::span<const Box> removed);

// The collective that an exchange amounts to, for people.
enum class Collective : std::uint8_t {
  none,
  all_gather,
  reduce_scatter,
  all_reduce,
  all_to_all,
  halo,
  send,
  broadcast,
  gather,
  scatter
};
std::string to_string(Collective c);

}  // namespace motley
