// SPDX-License-Identifier: Apache-2.0
// A change of layout as a list of box messages. Pure: nothing here talks to a transport.
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

// How an exchange goes, with P ranks on hosts of k ranks each and a tensor of n bytes, a Pth of it owned by each rank:
//   direct   every message at once, from who has to who needs. all-gather, reduce-scatter: 1 step, each rank gets n (P-1)/P bytes (each sum
//            is added by its owner); all-reduce: both, 2 steps. No list of more steps brings a rank fewer bytes.
//   windows  the same between ranks of one host, without messages: the reader looks into the writer's memory. A tensor read whole
//            by ranks of one host lies there once: nothing is copied behind the sums.
//   onward   copies between hosts: 2 steps. What k ranks of a host need goes to the first of them, the others look there: each rank
//            gets the same bytes, a host n (P-k)/P of them through its network instead of k times that. Sums go direct.
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
  scatter,
  slice
};
std::string to_string(Collective c);

}  // namespace motley
