// SPDX-License-Identifier: Apache-2.0
// Which kernels are worth measuring for a step under rules.
#pragma once
#include <vector>

#include "plan/plan_data.h"

namespace motley {

// Every different kernel that `rank` runs under a plan of these rules (parts not told are even), and of each convolution, dense layer
// and pool that follows a cut whose part is to be told its size at the candidate sizes (at most `most` a dim; 0: all).
std::vector<KernelSpec> needed_kernels(const Passes& passes, const Mesh& mesh, const LayoutRules& rules, const Profile& profile, DType dtype,
                                       int rank, Index most);
// The same of one plan as it stands.
std::vector<KernelSpec> kernels_of(const PlanData& plan, int rank);

}  // namespace motley
