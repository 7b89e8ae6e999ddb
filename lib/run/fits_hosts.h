// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/plan.h>
#include <motley/program.h>
#include <motley/transport.h>

namespace motley {

// Whether a Program's parameters and slots are still to be made.
enum class Parameters : std::uint8_t { to_be_made, there };

// Bytes that it will take, without kernels' workspaces.
Index bytes_of(const Program& program, Parameters parameters);

// Collective, before anyone allocates: the same Program, where what all ranks of each host take fits into its memory together. A
// device with memory of its own takes none of it. DeviceError on all ranks.
Program fits_hosts(Transport& transport, const Plan& plan, Program program, Parameters parameters = Parameters::to_be_made);

}  // namespace motley
