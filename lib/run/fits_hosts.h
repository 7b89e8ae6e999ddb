// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/plan.h>
#include <motley/transport.h>

#include "program/memory.h"

namespace motley {

// Collective, before any rank allocates: returns the same Program if what all ranks of each host take together fits into the host's
// memory. What a device with separate memory holds does not count. DeviceError on all ranks.
Program fits_hosts(Transport& transport, const Plan& plan, Program program, Parameters parameters = Parameters::to_be_made);

}  // namespace motley
