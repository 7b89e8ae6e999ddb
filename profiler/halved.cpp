// SPDX-License-Identifier: Apache-2.0
#include "profiler/halved.h"

#include <algorithm>
#include <numeric>

namespace motley {

std::optional<KernelSpec> halved(KernelSpec spec) {
  if (spec.op == KernelOp::map) {
    const auto most = std::max_element(spec.extents.begin(), spec.extents.end());
    if (most == spec.extents.end() || *most < 2) return std::nullopt;
    *most /= 2;
    return spec;
  }
  if (spec.op == KernelOp::attention) {  // whole samples: heads are side by side in memory, and share rows of the mask
    const Index sample = std::lcm(std::max<Index>(1, spec.heads), std::max<Index>(1, spec.share));
    if (spec.roles.g < 2 * sample) return std::nullopt;
    spec.roles.g = spec.roles.g / sample / 2 * sample;
    return spec;
  }
  const bool contracts = spec.op == KernelOp::conv2d || spec.op == KernelOp::dense;
  for (Index Roles::*const role : {&Roles::n, contracts ? &Roles::f : &Roles::c, &Roles::c})
    if (spec.roles.*role > 1) {
      spec.roles.*role /= 2;
      return spec;
    }
  return std::nullopt;
}

}  // namespace motley
