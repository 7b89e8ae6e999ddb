// SPDX-License-Identifier: Apache-2.0
// Whether mpiexec's launcher can reach the hosts that the devices name: it waits without end for one that does not answer.
#pragma once
#include <motley/device.h>

#include <vector>

namespace motley {

// A host that does not answer.
struct Unreached {
  std::vector<int> ranks{};  // ranks on that host
  std::string text{};        // names host and ranks, and quotes ssh
};

// Runs `true` on each host by ssh (or the program named by HYDRA_LAUNCHER_EXEC), on all at once, 10 s at most. Other launchers are
// not checked. Ends early on a signal: then no host counts as unreached.
std::vector<Unreached> unreached_hosts(const std::vector<Device>& devices);
// DeviceError names the hosts that do not answer.
void reach_hosts(const std::vector<Device>& devices);

}  // namespace motley
