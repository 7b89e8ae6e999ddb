// SPDX-License-Identifier: Apache-2.0
// Which kernels are worth measuring for a step under rules.
#pragma once
#include <functional>
#include <vector>

#include "balance/variables.h"
#include "plan/plan_data.h"

namespace motley {

// Sizes of a dim's part that are worth measuring.
using SizesOf = std::function<std::vector<Index>(const Variable& v)>;

// Every different kernel that `rank` runs under a plan of these rules (parts not resolved are even), and of each convolution, dense
// layer and pool that follows a cut whose part is to be chosen its size at `sizes`.
std::vector<KernelSpec> needed_kernels(const Passes& passes, const Mesh& mesh, const LayoutRules& rules, const Profile& profile,
                                       DType dtype, int rank, const SizesOf& sizes);
// What `rank` runs under one plan as it is: as a profile keeps them, and with the bias and activation that are fused into each.
std::vector<KernelSpec> kernels_of(const PlanData& plan, int rank);
std::vector<KernelSpec> kernels_as_run(const PlanData& plan, int rank);
// Where a contraction takes an activation in, or a map another one: it, and the two kernels that it replaces.
std::vector<KernelSpec> kernels_fused_and_apart(const PlanData& plan, int rank);
// Were all of its tensors tiled that travel while kernels run: in any number of pieces that choose_tiles() tries.
std::vector<KernelSpec> kernels_tiled(const PlanData& plan, int rank);

}  // namespace motley
