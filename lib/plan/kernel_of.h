// SPDX-License-Identifier: Apache-2.0
// The KernelSpec of a pass on one rank's work.
#pragma once
#include <motley/kernel_spec.h>

#include <optional>
#include <vector>

#include "graph/passes.h"
#include "plan/plan_data.h"

namespace motley {

// The box of an operand inside a work box, and an index's extent.
Box operand_box(const PassOperand& operand, const std::vector<Range>& work);

// What one kernel each does of a pass's work. All of it; a convolution by groups that has only parts of some groups: the part of
// its first group, the whole ones after it, the part of its last (one by one where its weight's gradient is made for some of the
// channels in a group).
std::vector<std::vector<Range>> kernel_boxes(const Pass& pass, const std::vector<Range>& work);
// Of such a box. Dense operands in the formats given per tensor.
KernelSpec kernel_of(const Passes& passes, const Pass& pass, const std::vector<Range>& work, DType dtype,
                     const std::vector<Format>& formats);
// Passes of attention, one after the other, that make other results of the same operands, or the one pass: a rank that has one box
// of them makes these by one kernel, of the first one's spec but for `made`.
struct MadeTogether {
  int first = 0, count = 1;
  Index made = 0;
};
MadeTogether made_together(const Passes& passes, int pass);
// What a plan times for a pass: the kernel that makes it, and for how many passes that is. Of attention all that are made together,
// but where the keys are cut: not all of them are, and each is counted alone.
struct TimedKernel {
  KernelSpec spec{};
  int passes = 1;
};
TimedKernel timed_kernel_of(const Passes& passes, int pass, const std::vector<Range>& work, DType dtype,
                            const std::vector<Format>& formats);
// A map over `extents` with given strides per operand, results last.
KernelSpec map_kernel(Formula formula, DType dtype, std::vector<Index> extents, std::vector<std::vector<Index>> strides);
// The sum of all operands but the last, which is the result.
KernelSpec sum_kernel(DType dtype, std::vector<Index> extents, std::vector<std::vector<Index>> strides);
// A map over so many elements, one after the other in operands of these types.
KernelSpec elements_kernel(Formula formula, DType dtype, Index elements, const std::vector<DType>& operands);

}  // namespace motley
