// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/plan.h>
#include <motley/program.h>
#include <motley/transport.h>

namespace motley {

// Whether a Program's parameters and slots have yet to be allocated.
enum class Parameters : std::uint8_t { to_be_made, there };

// Bytes that the Program will take, without kernels' workspaces.
Index bytes_of(const Program& program, Parameters parameters);

// Collective, before any rank allocates: returns the same Program if what all ranks of each host take together fits into the host's
// memory. What a device with separate memory holds does not count. DeviceError on all ranks.
Program fits_hosts(Transport& transport, const Plan& plan, Program program, Parameters parameters = Parameters::to_be_made);

}  // namespace motley
