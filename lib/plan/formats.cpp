// SPDX-License-Identifier: Apache-2.0
#include "plan/formats.h"

#include <algorithm>

#include "base/at.h"

namespace motley {

std::vector<Format> common_formats(const Passes& passes, const Mesh& mesh, DType dtype) {
  std::vector<Format> formats(passes.tensors.size(), Format::plain);
  if (dtype == DType::f64) return formats;  // the reference reads better so
  for (std::size_t t = 0; t < passes.tensors.size(); t++)
    if (passes.tensors[t].shape.rank() == 4 && passes.tensors[t].dtype != DType::i32) formats[t] = Format::channels_last;
  const bool gpu = std::any_of(mesh.devices().begin(), mesh.devices().end(), has_own_memory);
  for (const Pass& p : passes.passes)  // a convolution's weights: a CPU's kernels pack them
    if (!gpu && p.op == KernelOp::conv2d && p.kind != PassKind::backward_filter) {
      const int weight = p.reads[1].tensor, of = at(passes.tensors, weight).of;  // of a copy in bf16
      at(formats, of >= 0 ? of : weight) = Format::plain;
    }
  for (std::size_t t = 0; t < passes.tensors.size(); t++)
    if (passes.tensors[t].of >= 0) formats[t] = at(formats, passes.tensors[t].of);
  return formats;
}

}  // namespace motley
