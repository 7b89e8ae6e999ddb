// SPDX-License-Identifier: Apache-2.0
/// @file
/// A change of layout as a list of box messages (how they are sent: schedule.h). Pure: nothing here talks to a transport.
#pragma once
#include <motley/dims.h>
#include <motley/dtype.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace motley {
/// @addtogroup exchanges
/// @{

/// A rank stores (or needs) this box. A rank may have several boxes of one tensor.
struct Shard {
  int rank = 0;  ///< which rank
  Box box{};     ///< global indices
  auto operator<=>(const Shard&) const = default;
};

/// One box from one rank to another (or to itself: then nothing is sent).
struct BoxMessage {
  int from = 0;  ///< rank that sends
  int to = 0;    ///< rank that receives
  Box box{};     ///< global indices
  /// Which of the tensor's writing passes have a partial sum of it at `from`; they are added in this order before anything is sent.
  /// Empty for a copy of finished values.
  std::vector<int> writers{};
  int tree = -1;  ///< in a schedule's stage: which tree it belongs to (schedule.h)
  auto operator<=>(const BoxMessage&) const = default;
};

/// One of the maximal boxes that are in the same set of ranks' boxes.
struct Atom {
  Box box{};                 ///< global indices
  std::vector<int> ranks{};  ///< that have it, ascending
};
/// The maximal boxes that are in the same set of ranks' boxes, with those ranks.
std::vector<Atom> atoms(std::span<const Shard> held);

/// How the ranks that have an atom divide it. Counted in elements, so that every dtype has the same owners.
struct Ownership {
  /// An atom of fewer elements has one owner. 4 KiB of f32: a link of 1 Gbit/s takes as long for them as for the message itself.
  Index whole_below = 1024;
  Index multiple = 16;  ///< elements in every share but the last where the atom allows it: a cache line of f32
};
/// Which of an atom's ranks (ascending) gets all of it.
using ChooseOwner = std::function<int(const std::vector<int>& ranks, Index elements)>;

/// One owner per element: space is split into atoms(); a small atom has the owner that is chosen for it, the ranks of a larger one
/// share it evenly along its longest dim (first of equals), in rank order. Sorted by rank. A rank owns only what it stores.
std::vector<Shard> owners(std::span<const Shard> held, const ChooseOwner& choose, const Ownership& ownership = {});
std::vector<Shard> owners(std::span<const Shard> held);  ///< Every atom is shared; a scalar is the first rank's.

/// Who sends what so that every box of `to` is filled from `from` (which covers it, each element once). Sorted by (to, box, from).
std::vector<BoxMessage> copies(std::span<const Shard> from, std::span<const Shard> to);

/// As copies(), where ranks of `from` may have the same elements: a rank keeps what it has; what it lacks comes from the rank that
/// has most of it (of equals: who has given least so far, then the first). Every element arrives once. UserError: no rank has it.
std::vector<BoxMessage> fill(std::span<const Shard> from, std::span<const Shard> to);

/// `box` without what `removed` covers, as disjoint boxes.
std::vector<Box> subtract(const Box& box, std::span<const Box> removed);

/// The collective that an exchange amounts to, for reports.
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
std::string to_string(Collective c);  ///< As in plans: `all_gather`.

/// @}
}  // namespace motley
