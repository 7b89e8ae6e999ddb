// SPDX-License-Identifier: Apache-2.0
// The order in memory of tensors: the same on all ranks, between them and at rest.
#pragma once
#include "plan/plan_data.h"

namespace motley {

// Per tensor. Activations of convolutions and pools, and what is computed of these, channels last: uneven cuts need no padding in
// it, and a slab of images is one run in memory. A convolution's weights are plain (a CPU's kernels pack them), but channels last
// where a rank drives a GPU: cuDNN takes them so as they are, and a CPU packs them from either by the same loop. f64: plain, the
// reference reads better so.
std::vector<Format> common_formats(const Passes& passes, const Mesh& mesh, DType dtype);

}  // namespace motley
