// SPDX-License-Identifier: Apache-2.0
// The start of watching: which ranks are on which host, where their records are, and the links between the hosts.
#pragma once
#include <motley/transport.h>

#include <memory>
#include <string>
#include <vector>

#include "run/heartbeat.h"
#include "run/start.h"

namespace motley {

// This rank's record and its heartbeat. Neither: no rank watches, and every wait has its deadline.
struct OnWatch {
  std::unique_ptr<RecordWriter> record;
  std::unique_ptr<Heartbeat> heartbeat;
};

// One line for all: whose heartbeats rank 0 does not receive (ranks by host, host 0 is rank 0's; linked by host). Empty: it
// receives all.
std::string unheard_note(const std::vector<std::vector<int>>& hosts, const std::vector<bool>& linked,
                         const std::vector<std::string>& names, double hung_seconds);

// Collective, once MPI runs. Launched ranks already have a record, in a directory that all see; others get one in a file on their
// host, which has no name any more when this returns.
void meet_hosts(Transport& transport, const Start& start, const Limits& limits, OnWatch& watched);

}  // namespace motley
