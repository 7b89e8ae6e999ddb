// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "kernels/cuda/fold_formulas.h"

namespace motley::cuda {

struct PlannedFold {
  FoldPlan plan{};
  std::vector<FoldOperandAt> more{};  // the operands after kArgumentOperands: strides; data is set at each run
};

// DeviceError: more extents than a kernel's arguments hold. InternalError: a broken spec.
PlannedFold plan_fold(const KernelSpec& spec);

}  // namespace motley::cuda
