// SPDX-License-Identifier: Apache-2.0
// The part of a convolution that a vendor's engine, which has no negative padding, can be given.
#pragma once
#include <motley/kernel_spec.h>

namespace motley::cuda {

// The part of x that an engine is given, and the padding around it, such that there are as many outputs as in the spec; where the
// number of outputs allows it, x is whole and the padding is equal on both sides.
struct Reach {
  Index below = 0, right = 0, h = 0, w = 0;  // first row and column of x, and their numbers
  Index before[2] = {0, 0}, after[2] = {0, 0};
  bool possible = false;  // nothing is empty, and no window is entirely in the padding
};
Reach reach_of(const KernelSpec& spec);

}  // namespace motley::cuda
