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

/// Moves a tensor. Collective over the transport. local: this rank's box of `from`, row-major in the order of its layout's dims;
/// returned: this rank's box of `to`, row-major in the order of ITS dims (they match by name, so another order transposes, and
/// channels last is an order like any). Ranks keep what they have; everything else arrives once: bytes received = what a rank
/// lacks, one message per pair of ranks, and none where nothing changes. UserError: dims that differ, a wrong number of local
/// values, a mesh larger than the transport, boxes that no rank has, a cut that does not fit its mesh or dim.
std::vector<float> redistribute(std::span<const float> local, const LaidOut& from, const LaidOut& to, Transport& transport);
/// The same in f64.
std::vector<double> redistribute(std::span<const double> local, const LaidOut& from, const LaidOut& to, Transport& transport);
/// The same of integers.
std::vector<std::int32_t> redistribute(std::span<const std::int32_t> local, const LaidOut& from, const LaidOut& to,
                                       Transport& transport);
/// The same between memory that the caller provides; `result` does not overlap `local`. After an error of the transport, messages
/// may still use both (and `local` in the calls above) until the process ends.
void redistribute(std::span<const std::byte> local, std::span<std::byte> result, DType dtype, const LaidOut& from,
                  const LaidOut& to, Transport& transport);

/// The messages of redistribute() (from == to: what a rank keeps), boxes in the order of from's dims. Pure; the same on every rank.
std::vector<BoxMessage> moves(const LaidOut& from, const LaidOut& to);

/// @}
}  // namespace motley
