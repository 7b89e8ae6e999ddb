// SPDX-License-Identifier: Apache-2.0
// Weights between the spec's format and the layout that oneDNN picked, by our own loops where they know it: about twice as fast
// as oneDNN's reorder, which a small layer's convolution is not much slower than.
#pragma once
#include <optional>

#include "kernels/cpu/dnnl_compat.h"
#include "kernels/cpu/loops.h"

namespace motley::cpu {

struct PackPlan {
  PackLoop loop{};  // whoever runs it sets its offsets to the list's
  std::vector<std::int32_t> offsets{};
  Index units = 0;
};

// Empty: not one of the layouts that the loops know (o innermost in blocks of 8 n; or i innermost and w channels-last).
std::optional<PackPlan> plan_packing(const KernelSpec& spec, const dnnl::memory::desc& packed, bool back);

}  // namespace motley::cpu
