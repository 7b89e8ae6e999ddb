// SPDX-License-Identifier: Apache-2.0
// The order in memory of tensors. Between ranks all move in their common format. What stays on a rank may lie otherwise there: in blocks
// of channels, where the rank's own kernels were measured faster so.
#pragma once
#include <motley/profile.h>

#include "plan/plan_data.h"

namespace motley {

// Per tensor. Activations channels last: uneven cuts need no padding in it, and a slab of images is one run in memory. A
// convolution's weights are plain (a CPU's kernels pack them), but channels last where a rank drives a GPU: cuDNN takes them so as they
// lie, and a CPU packs them from either by the same loop. f64: plain, the reference reads better so.
std::vector<Format> common_formats(const Passes& passes, const Mesh& mesh, DType dtype);
std::vector<Format> formats_on(const PlanData& data, int rank);  // per tensor, as they lie there

// Tensors that may lie in this blocked format on the rank: activations and their gradients that no message takes or brings there, in
// whole blocks of channels, touched by convolutions, pools and pointwise passes alone. In groups that change together:
// tensors of one convolution or pointwise pass, a pool's x and dx.
std::vector<std::vector<int>> groups_in_blocks(const PlanData& data, int rank, Format format);
// The plan with all groups, and with each alone, in blocks: whose kernels tell which pay.
std::vector<PlanData> plans_in_blocks(const PlanData& data, int rank, Format format);
// Group by group the faster format, where the profile knows the convolutions and pools of both; the prediction is made anew.
void choose_formats(PlanData& data, const Profile& profile);

}  // namespace motley
