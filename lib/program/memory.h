// SPDX-License-Identifier: Apache-2.0
// The memory that a Program takes on its rank, as the executor allocates it.
#pragma once
#include <motley/profile.h>
#include <motley/program.h>

namespace motley {

// Whether a Program's parameters and slots have yet to be allocated.
enum class Parameters : std::uint8_t { to_be_made, there };

inline constexpr Index kFlagBytes = 64;  // a flag has a separate cache line
Index flag_bytes(const Program& program);
Index in_blocks(Index bytes);  // rounded up to where the next part of the block may begin

// Of the kernels that the Program runs, the largest workspace; a kernel that was not measured counts for nothing.
Index workspace_of(const Program& program, const Profile& profile);
// One block: the arena, the workspace that its kernels share, the flags.
Index block_bytes(const Program& program, Index workspace);
// The block, and what is kept from step to step; parameters that are there already do not count.
Index memory_of(const Program& program, Index workspace, Parameters parameters = Parameters::to_be_made);

}  // namespace motley
