// SPDX-License-Identifier: Apache-2.0
/// @file
/// A tensor's shards, moved from one layout to another. Usable alone: a mesh, two layouts and a transport are all it takes.
#pragma once
#include <motley/dtype.h>
#include <motley/exchange.h>
#include <motley/layout.h>
#include <motley/transport.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace motley {
/// @addtogroup running
/// @{

/// A layout on a mesh. Rank r of the mesh is rank r of the transport; a mesh may have fewer ranks than the transport has (the
/// others store nothing). On an axis without a cut every coordinate has a copy.
struct LaidOut {
  Mesh mesh;        ///< on which
  Layout layout{};  ///< how
};

/// Moves a tensor. Collective over the transport. local: this rank's box of `from`, row-major in the order of its layout's dims; returned: this
/// rank's box of `to`, row-major in the order of ITS dims (they match by name, so another order transposes, and channels last is
/// an order like any). Ranks keep what they have; everything else arrives once: bytes received = what a rank lacks, one message
/// per pair of ranks, and none where nothing changes.
/// UserError: dims that differ, a wrong number of local values, a mesh larger than the transport, boxes that no rank has.
std::vector<float> redistribute(std::span<const float> local, const LaidOut& from, const LaidOut& to, Transport& transport);
/// The same in f64.
std::vector<double> redistribute(std::span<const double> local, const LaidOut& from, const LaidOut& to, Transport& transport);
/// The same of integers.
std::vector<std::int32_t> redistribute(std::span<const std::int32_t> local, const LaidOut& from, const LaidOut& to, Transport& transport);
/// The same between memory that the caller provides; `result` does not overlap `local`.
void redistribute(std::span<const std::byte> local, std::span<std::byte> result, DType dtype, const LaidOut& from, const LaidOut& to,
                  Transport& transport);

/// What redistribute() sends (and keeps: from == to), boxes in the order of from's dims. Pure; the same on every rank.
std::vector<BoxMessage> moves(const LaidOut& from, const LaidOut& to);

/// Seconds of one message.
using LinkSeconds = std::function<double(int from, int to, Index bytes)>;

/// What a list of messages costs: a rank receives one message (all from one rank together) after another and, meanwhile, sends one after
/// another; the slowest rank's seconds.
double seconds_of(std::span<const BoxMessage> messages, Index item_bytes, const LinkSeconds& link);

/// A result of cheapest_path().
struct Path {
  std::vector<std::size_t> through{};  ///< states of `via`, in order; empty: directly
  double seconds = 0;                  ///< of all hops
};
/// Options of cheapest_path(). Every field has a default.
struct PathLimits {
  Index item_bytes = 4;             ///< of one element
  std::vector<Index> rank_bytes{};  ///< no rank stores more than this before and after one hop in sum; empty: any
};
/// The cheapest path from one state (who stores what) to another, straight or through states of `via`. Never dearer than the direct
/// way; of equals the one with fewer hops. Pure. Dijkstra's algorithm: steps (v+2)^2 for v states.
Path cheapest_path(std::span<const Held> from, std::span<const Held> to, std::span<const std::vector<Held>> via, const LinkSeconds& link,
                   const PathLimits& limits = {});

/// An intermediate state from -> to that may be faster: every element that ranks of a group (of one host, say) need and none of them has
/// is brought to ONE of them, in even shares; ranks keep what they have and the group needs. The next hop is then inside the
/// groups: what several ranks of a host read crosses the link to that host once.
std::vector<Held> relays(std::span<const Held> from, std::span<const Held> to, std::span<const std::vector<int>> groups);

/// @}
}  // namespace motley
