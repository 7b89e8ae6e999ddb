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
  /// The passes writing the tensor whose partial sums of the box are at `from`; they are added in this order before anything is
  /// sent. Empty for a copy of finished values.
  std::vector<int> writers{};
  int tree = -1;  ///< in a schedule's stage: which tree it belongs to (schedule.h)
  auto operator<=>(const BoxMessage&) const = default;
};

/// A maximal box all of whose elements are in the boxes of the same ranks.
struct Atom {
  Box box{};                 ///< global indices
  std::vector<int> ranks{};  ///< the ranks that have it, ascending
};
/// All atoms: the maximal boxes whose elements are in the boxes of the same ranks, with those ranks.
std::vector<Atom> atoms(std::span<const Shard> held);

/// How an atom is divided among the ranks that have it. Counted in elements, so that every dtype has the same owners.
struct Ownership {
  /// An atom of fewer elements has one owner. In f32 they are 4 KiB, which take as long on a 1 Gbit/s link as a message without
  /// bytes.
  Index whole_below = 1024;
  Index multiple = 16;  ///< shares but the last are multiples of it where the atom allows it: a cache line of f32
};
/// Which of an atom's ranks (ascending) owns all of it.
using ChooseOwner = std::function<int(const std::vector<int>& ranks, Index elements)>;

/// One owner per element: the index space is split into atoms(). `choose` picks the owner of a small atom; a larger one is divided
/// evenly among its ranks along its longest dim (first of equals), in rank order. Sorted by rank. A rank owns only what it stores.
std::vector<Shard> owners(std::span<const Shard> held, const ChooseOwner& choose, const Ownership& ownership = {});
std::vector<Shard> owners(std::span<const Shard> held);  ///< Every atom is divided; a scalar belongs to the first rank.

/// Who sends what so that every box of `to` is filled from `from` (which covers it, each element once). Sorted by (to, box, from).
std::vector<BoxMessage> copies(std::span<const Shard> from, std::span<const Shard> to);

/// As copies(), but several ranks of `from` may have the same elements: a rank keeps what it has; what it lacks comes from the rank
/// that has most of it (of equals: the one that has sent least so far, then the first). Every element arrives once. UserError: no
/// rank has it.
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
