// SPDX-License-Identifier: Apache-2.0
#include "run/fits_hosts.h"

#include "mesh/host_memory.h"

namespace motley {

Program fits_hosts(Transport& transport, const Plan& plan, Program program, Parameters parameters) {
  const bool elsewhere = driven(plan.mesh().device(program.rank)).kind == DeviceKind::cuda;
  check_host_memory(transport, elsewhere ? 0 : static_cast<std::uint64_t>(memory_of(program, 0, parameters)), read_memory());
  return program;
}

}  // namespace motley
