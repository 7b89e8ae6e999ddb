// SPDX-License-Identifier: Apache-2.0
// What of a convolution a vendor's engine can be given, which knows no negative padding.
#pragma once
#include <motley/kernel_spec.h>

namespace motley::cuda {

// The part of x that an engine is given, and the padding around it: as many outputs as the spec has, x whole and the padding the
// same on both sides wherever the number of outputs allows it.
struct Reach {
  Index below = 0, right = 0, h = 0, w = 0;  // first row and column of x, and how many
  Index before[2] = {0, 0}, after[2] = {0, 0};
  bool possible = false;  // nothing is empty, no window is wholly in the padding
};
Reach reach_of(const KernelSpec& spec);

}  // namespace motley::cuda
