// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/reach.h"

#include <algorithm>
#include <array>

namespace motley::cuda {

Reach reach_of(const KernelSpec& spec) {
  const Roles& e = spec.roles;
  Reach reach;
  reach.possible = std::min({e.g, e.n, e.c, e.h, e.w, e.f, e.r, e.s, e.p, e.q}) > 0;
  if (!reach.possible) return reach;
  const std::array<Index, 2> size{e.h, e.w}, window{e.r, e.s}, outputs{e.p, e.q};
  for (std::size_t axis = 0; axis < 2; axis++) {
    const Index before = spec.padding[2 * axis], across = (window[axis] - 1) * spec.dilation[axis] + 1;
    const Index end = (outputs[axis] - 1) * spec.stride[axis] - before + across;  // after the last row that a window covers
    // An engine rounds the number of outputs down: fewer rows than a stride may be left over, both of x and of the padding.
    const Index spare = spec.stride[axis] - 1, first = std::max<Index>(0, -before),
                last = size[axis] - end > spare ? end : size[axis];
    reach.before[axis] = std::max<Index>(0, before);
    // Vendors have more engines for a padding that is equal on both sides.
    const Index needed = std::max<Index>(0, end - last), same = reach.before[axis];
    reach.after[axis] = same >= needed && same <= end - last + spare ? same : needed;
    reach.possible = reach.possible && last > first && reach.before[axis] < across && reach.after[axis] < across;
    (axis == 0 ? reach.below : reach.right) = first;
    (axis == 0 ? reach.h : reach.w) = last - first;
  }
  return reach;
}

}  // namespace motley::cuda
