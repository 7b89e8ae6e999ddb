// SPDX-License-Identifier: Apache-2.0
// Whether mpiexec's launcher will get to the hosts that the devices name: it waits without end for one that does not answer.
#pragma once
#include <motley/device.h>

#include <vector>

namespace motley {

// A host that does not answer.
struct Unreached {
  std::vector<int> ranks{};  // on it
  std::string text{};        // names host and ranks, and says what ssh said
};

// Runs `true` on each host by ssh (or what HYDRA_LAUNCHER_EXEC names), all at once, 10 s at most. Other launchers are not asked.
// Ends early on a signal: none is unreached then.
std::vector<Unreached> unreached_hosts(const std::vector<Device>& devices);
// DeviceError names the hosts that do not answer.
void reach_hosts(const std::vector<Device>& devices);

}  // namespace motley
