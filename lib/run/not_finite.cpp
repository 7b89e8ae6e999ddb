// SPDX-License-Identifier: Apache-2.0
#include "run/not_finite.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/at.h"
#include "kernels/operands.h"
#include "program/views.h"

namespace motley {

namespace {

template <class T>
bool all_finite(const std::byte* bytes, const std::vector<Index>& extents, const std::vector<Index>& strides) {
  const T* base = reinterpret_cast<const T*>(bytes);
  std::vector<Index> here(extents.size(), 0);
  for (Index left = std::accumulate(extents.begin(), extents.end(), Index{1}, std::multiplies<>()); left > 0; left--) {
    if (!std::isfinite(static_cast<double>(base[std::inner_product(here.begin(), here.end(), strides.begin(), Index{0})])))
      return false;
    for (std::size_t d = here.size(); d-- > 0;) {
      if (++here[d] < extents[d]) break;
      here[d] = 0;
    }
  }
  return true;
}

bool all_finite(DType dtype, const std::byte* bytes, const std::vector<Index>& extents, const std::vector<Index>& strides) {
  if (dtype == DType::i32) return true;
  if (dtype == DType::bf16) return all_finite<Bf16>(bytes, extents, strides);
  return dtype == DType::f64 ? all_finite<double>(bytes, extents, strides) : all_finite<float>(bytes, extents, strides);
}

}  // namespace

bool is_finite(const Program& program, int buffer, const std::byte* bytes) {
  const Buffer& b = at(program.buffers, buffer);
  const View view = view_of(b, buffer, b.box);
  return all_finite(b.dtype, bytes, view.extents, view.strides);
}

bool is_finite(const Program& program, const RunKernel& run, std::size_t operand, const std::byte* bytes) {
  const Place& place = run.operands.at(operand);
  const DType dtype = at(program.buffers, place.buffer).dtype;
  bytes += place.element * static_cast<Index>(bytes_of(dtype));
  if (run.spec.op != KernelOp::map) return all_finite(dtype, bytes, {operands_of(run.spec).at(operand).elements}, {1});
  std::vector<Index> extents = run.spec.extents;
  const std::vector<Index>& strides = run.spec.operands.at(operand).strides;
  for (std::size_t d = 0; d < extents.size(); d++)
    if (strides[d] == 0) extents[d] = std::min<Index>(extents[d], 1);
  return all_finite(dtype, bytes, extents, strides);
}

}  // namespace motley
