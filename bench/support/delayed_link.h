// SPDX-License-Identifier: Apache-2.0
// Ranks as threads, joined by a network that is none: a message is there so many seconds after both ends have posted it, one after
// the other at each rank, and takes no core's time but for the copies into and out of it. What a network with its own engine does.
#pragma once
#include <motley/transport.h>

namespace motley::bench {

struct LinkSpeed {
  double seconds = 0, bytes_per_second = 0;
};
std::vector<std::unique_ptr<Transport>> delayed(int ranks, LinkSpeed speed);

}  // namespace motley::bench
