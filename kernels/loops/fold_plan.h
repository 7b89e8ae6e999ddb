// SPDX-License-Identifier: Apache-2.0
// Puts a fold's extents into the order in which our loops are fast, and cuts the work into units.
#pragma once
#include <vector>

#include "kernels/loops/loops.h"

namespace motley::cpu {

struct FoldPlan {
  FoldLoop loop{};  // its extents and strides are set to the lists' before it runs
  std::vector<Index> extents{}, strides{};
  Index units = 0;     // of loop.fold, independent of each other; 0: nothing to do
  Index elements = 0;  // of all operands together
};

// DeviceError: what our loops cannot do (f64, more than 17 extents). InternalError: a broken spec.
FoldPlan plan_fold(const KernelSpec& spec, int threads);

}  // namespace motley::cpu
