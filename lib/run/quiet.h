// SPDX-License-Identifier: Apache-2.0
// Waiting until no other process uses the ranks' cores. Collective.
#pragma once
#include <motley/transport.h>

namespace motley {

inline constexpr const char* kWaitsForOthers = "waiting until other processes leave the cores";  // for people

// Whether no two ranks of a host may use the same core; else each would take the others for other processes.
bool has_own_cores(Transport& transport);
// Returns when other processes have at most kDisturbed (base/core_use.h) of any rank's cores, or after so many seconds.
void wait_for_quiet(Transport& transport, double seconds);

}  // namespace motley
