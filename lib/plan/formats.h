// SPDX-License-Identifier: Apache-2.0
// The memory order of tensors: the same on all ranks, in messages and where they are stored.
#pragma once
#include "plan/plan_data.h"

namespace motley {

// Per tensor. Activations of convolutions and pools, and tensors computed from them, are channels last: uneven cuts need no padding
// in that format, and a block of images is contiguous in memory. A convolution's weights are plain (a CPU's kernels pack them), but
// channels last where a rank drives a GPU: cuDNN takes them in that order as they are, and a CPU packs them from either order by
// the same loop. f64: plain, which the reference reads faster.
std::vector<Format> common_formats(const Passes& passes, const Mesh& mesh, DType dtype);

}  // namespace motley
