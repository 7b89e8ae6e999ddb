// SPDX-License-Identifier: Apache-2.0
// Measures the times of messages between ranks, and fits lines to them.
#pragma once
#include <motley/backend.h>
#include <motley/profile.h>
#include <motley/transport.h>

#include <functional>
#include <utility>
#include <vector>

namespace motley {

struct LinkOptions {
  double budget_seconds = 10;  // for all pairs
  Index most_bytes = Index{16} << 20;
  int most_rounds = 200;
  std::function<void(int done, int total)> progress{};  // pairs
  DeviceMemory* device =
      nullptr;  // of this rank: its messages begin and end in pinned memory, or on the device where the transport takes that
};

// Collective: ping-pong of each pair of ranks, one pair after the other, 8 bytes .. most_bytes by factors of 2; the result is half
// the median round trip. Both directions of a pair get the same segments. The result is the same on every rank, ordered by (from,
// to).
std::vector<Link> measure_links(Transport& transport, const LinkOptions& options = {});

// Collective: sets `in_place` and `exchange_seconds` of the links between ranks that share memory, one pair after the other, both
// directions at once. in_place: 64 bytes .. most_bytes by factors of 4: the median time of reading what the peer has just written,
// less that of reading what this rank has just written. exchange_seconds: the median time of an exchange without bytes.
void measure_reads(Transport& transport, std::vector<Link>& links, const LinkOptions& options = {});

// Copies between pinned memory and the device's memory, timed as a message waits for them, at the same sizes; the least of several
// each.
DeviceLink measure_device_link(DeviceMemory& device, int rank, const LinkOptions& options = {});

// Splits ascending (bytes, seconds) into `segments` runs of at least two sizes such that the sum of squared relative errors of one
// straight line per run, with seconds and 1 / bytes_per_second not negative, is least.
std::vector<LinkSegment> fit_link(const std::vector<std::pair<Index, double>>& points, int segments = 4);

}  // namespace motley
