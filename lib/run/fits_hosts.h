// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/plan.h>
#include <motley/program.h>
#include <motley/transport.h>

namespace motley {

// Collective, before anyone allocates: the same Program, where the arenas and the state of all ranks of each host fit into its
// memory together. A device with memory of its own takes none of it. DeviceError on all ranks.
Program fits_hosts(Transport& transport, const Plan& plan, Program program);

}  // namespace motley
