// SPDX-License-Identifier: Apache-2.0
#include "run/fits_hosts.h"

#include "mesh/host_memory.h"

namespace motley {

Index bytes_of(const Program& program, Parameters parameters) {
  Index bytes = program.arena_bytes + program.state_bytes;
  for (const Buffer& b : program.buffers)
    if (parameters == Parameters::there && b.space == Space::state) bytes -= b.bytes;
  return bytes;
}

Program fits_hosts(Transport& transport, const Plan& plan, Program program, Parameters parameters) {
  const bool elsewhere = driven(plan.mesh().device(program.rank)).kind == DeviceKind::cuda;
  check_host_memory(transport, elsewhere ? 0 : static_cast<std::uint64_t>(bytes_of(program, parameters)), read_memory());
  return program;
}

}  // namespace motley
