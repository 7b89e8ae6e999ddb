// SPDX-License-Identifier: Apache-2.0
// Which kernels to measure for a step under rules.
#pragma once
#include <functional>
#include <vector>

#include "balance/variables.h"
#include "program/common_plan.h"

namespace motley {

// The sizes of a dim's part to measure.
using SizesOf = std::function<std::vector<Index>(const Variable& v)>;

// Every distinct kernel that `rank` runs under a plan of these rules (parts not resolved are even), and at every size of `sizes`
// each convolution, dense layer and pool that follows a cut whose part is to be chosen.
std::vector<KernelSpec> needed_kernels(const Passes& passes, const Mesh& mesh, const LayoutRules& rules, const Profile& profile,
                                       DType dtype, int rank, const SizesOf& sizes);
// Those that a complete profile has, whatever plan is chosen from it: at the candidate sizes of each dim, in f32.
std::vector<KernelSpec> candidate_kernels(const Passes& passes, const Mesh& mesh, const LayoutRules& rules, int rank);
// The kernels that `rank` runs under one plan as it is: as a profile keeps them, and with the bias and activation that are fused
// into each.
std::vector<KernelSpec> kernels_of(const CommonPlan& plan, int rank);
std::vector<KernelSpec> kernels_as_run(const CommonPlan& plan, int rank);
// For each activation fused into a contraction, and each map fused into another: the fused kernel and the two that it replaces.
std::vector<KernelSpec> kernels_fused_and_apart(const PlanData& plan, int rank);
// The kernels of `rank` if all tensors that are sent while kernels run were tiled, in any number of pieces that choose_tiles()
// tries.
std::vector<KernelSpec> kernels_tiled(const PlanData& plan, int rank);

}  // namespace motley
