// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "kernels/cuda/map_formulas.h"

namespace motley::cuda {

struct PlannedMap {
  MapPlan plan{};
  PlainFormula formula{};
  std::vector<MapOperandAt> more{};  // the first summands, if not all inputs can be arguments: strides; data is set at each run
};

bool supports_map(const KernelSpec& spec);
// DeviceError, if not supported: more extents, operands or results than a kernel's arguments hold. InternalError: an invalid spec.
PlannedMap plan_map(const KernelSpec& spec);

}  // namespace motley::cuda
