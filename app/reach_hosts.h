// SPDX-License-Identifier: Apache-2.0
// Whether mpiexec's launcher will get to the hosts that the devices name: it waits without end for one that does not answer.
#pragma once
#include <motley/device.h>

#include <vector>

namespace motley {

// Runs `true` on each host by ssh (or what HYDRA_LAUNCHER_EXEC names), all at once, 10 s at most. Other launchers are not asked.
// DeviceError names the hosts that cannot be reached, their ranks and what ssh said. Ends early on a signal.
void reach_hosts(const std::vector<Device>& devices);

}  // namespace motley
