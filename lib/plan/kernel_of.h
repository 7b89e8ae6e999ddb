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
// Of such a box. Dense operands in the formats given per tensor. sgd is no pass.
KernelSpec kernel_of(const Passes& passes, const Pass& pass, const std::vector<Range>& work, DType dtype,
                     const std::vector<Format>& formats);
KernelSpec accumulate_kernel(PassKind pass, Index elements, DType dtype);
KernelSpec sgd_kernel(const Sgd& sgd, Index elements, DType dtype);

// A fold over `extents` with given strides per operand, result last.
KernelSpec fold_kernel(FoldKind kind, DType dtype, std::vector<Index> extents, std::vector<std::vector<Index>> strides);

}  // namespace motley
