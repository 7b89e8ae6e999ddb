// SPDX-License-Identifier: Apache-2.0
// Which kernels to measure for a step under rules.
#pragma once
#include <motley/step.h>

#include <functional>
#include <vector>

#include "balance/variables.h"
#include "program/common_plan.h"

namespace motley {

// The sizes of a dim's part to measure.
using SizesOf = std::function<std::vector<Index>(const Variable& v)>;

// Of some ranks, in their order; the plan that they are taken from is made once for all of them.
using KernelsByRank = std::vector<std::vector<KernelSpec>>;

// Every distinct kernel that each of these ranks runs under a plan of these rules (parts not resolved are even), and at every size
// of `sizes` each convolution, dense layer and pool that follows a cut whose part is to be chosen.
KernelsByRank needed_kernels(const Passes& passes, const Mesh& mesh, const LayoutRules& rules, const Profile& profile, DType dtype,
                             const std::vector<int>& ranks, const SizesOf& sizes);
// Those that a complete profile has, whatever plan is chosen from it: at the candidate sizes of each dim, in f32; where layouts are
// open, of each uniform one.
KernelsByRank candidate_kernels(const Step& step, const Mesh& mesh, const LayoutRules& rules, const std::vector<int>& ranks);
// The kernels that `rank` runs under one plan as it is: as a profile keeps them, and with the bias and activation that are fused
// into each.
std::vector<KernelSpec> kernels_of(const CommonPlan& plan, int rank);
std::vector<KernelSpec> kernels_as_run(const CommonPlan& plan, int rank);
// For each activation fused into a contraction, and each map fused into another: the fused kernel and the two that it replaces.
std::vector<KernelSpec> kernels_fused_and_apart(const PlanData& plan, int rank);
// The kernels of these ranks if all tensors that are sent while kernels run were tiled, in any number of pieces that choose_tiles()
// tries.
KernelsByRank kernels_tiled(const PlanData& plan, const std::vector<int>& ranks);

}  // namespace motley
