// SPDX-License-Identifier: Apache-2.0
#include "program/memory.h"

#include <algorithm>

namespace motley {

Index flag_bytes(const Program& program) {
  return program.windows ? static_cast<Index>(program.exchange_names.size()) * kFlagBytes : 0;
}

Index in_blocks(Index bytes) {
  return (bytes + 255) / 256 * 256;
}

Index workspace_of(const Program& program, const Profile& profile) {
  Index most = 0;
  if (profile.empty()) return most;
  for (const ProgramStep& s : program.steps)
    if (const auto* run = std::get_if<RunKernel>(&s.what)) most = std::max(most, profile.workspace_bytes(program.rank, run->spec));
  return most;
}

Index block_bytes(const Program& program, Index workspace) {
  return in_blocks(program.arena_bytes) + in_blocks(workspace) + std::max(flag_bytes(program), kFlagBytes);
}

Index memory_of(const Program& program, Index workspace, Parameters parameters) {
  Index bytes = block_bytes(program, workspace) + program.state_bytes;
  for (const Buffer& b : program.buffers)
    if (parameters == Parameters::there && b.space == Space::state) bytes -= b.bytes;
  return bytes;
}

}  // namespace motley
