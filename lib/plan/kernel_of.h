// SPDX-License-Identifier: Apache-2.0
// The KernelSpec of a rank's work in a pass.
#pragma once
#include <motley/kernel_spec.h>

#include <optional>
#include <vector>

#include "graph/passes.h"
#include "plan/plan_data.h"

namespace motley {

// The box of an operand inside a work box, and the extent of an index.
Box operand_box(const PassOperand& operand, const Box& work);

// The work of a pass as boxes for one kernel each. Usually one box, all of it; a grouped convolution that has only parts of some
// groups: the part of its first group, the whole groups after it, the part of its last group (group by group if the gradient of its
// weight is made for some of the channels in a group).
std::vector<Box> kernel_boxes(const Pass& pass, const Box& work);
// The spec for such a box. Dense operands are in the formats given per tensor.
KernelSpec kernel_of(const Passes& passes, const Pass& pass, const Box& work, DType dtype, const std::vector<Format>& formats);
// Consecutive passes of attention that make different results of the same operands, or a single pass: a rank that has the same box
// of all of them runs one kernel, with the first pass's spec except for `made`.
struct MadeTogether {
  int first = 0, count = 1;
  Index made = 0;
};
MadeTogether made_together(const Passes& passes, int pass);
// What a plan times for a pass: the kernel that makes its result, and the number of passes that the kernel covers. For attention:
// all passes made together, except where the keys are cut, where not all of them are: each is then counted separately.
struct TimedKernel {
  KernelSpec spec{};
  int passes = 1;
};
TimedKernel timed_kernel_of(const Passes& passes, int pass, const Box& work, DType dtype, const std::vector<Format>& formats);
// A map over `extents` with given strides per operand, results last.
KernelSpec map_kernel(Formula formula, DType dtype, std::vector<Index> extents, std::vector<std::vector<Index>> strides);
// The sum of all operands but the last, which is the result.
KernelSpec sum_kernel(DType dtype, std::vector<Index> extents, std::vector<std::vector<Index>> strides);
// A map over so many consecutive elements of operands of these types.
KernelSpec elements_kernel(Formula formula, DType dtype, Index elements, const std::vector<DType>& operands);

}  // namespace motley
