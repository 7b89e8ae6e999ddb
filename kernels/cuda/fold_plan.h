// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/cuda/fold_formulas.h"

namespace motley::cuda {

// DeviceError: more operands or extents than a kernel's arguments hold. InternalError: a broken spec.
FoldPlan plan_fold(const KernelSpec& spec);

}  // namespace motley::cuda
