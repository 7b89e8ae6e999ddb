// SPDX-License-Identifier: Apache-2.0
#include "run/not_finite.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/at.h"
#include "base/box_rows.h"
#include "kernels/operands.h"
#include "program/views.h"

namespace motley {

namespace {

// An exponent of ones: infinity or not a number.
bool is_finite_one(float value) {
  return (~std::bit_cast<std::uint32_t>(value) & 0x7f800000U) != 0;
}
bool is_finite_one(double value) {
  return (~std::bit_cast<std::uint64_t>(value) & 0x7ff0000000000000U) != 0;
}
bool is_finite_one(Bf16 value) {
  return is_finite_one(static_cast<float>(value));
}

template <class T>
bool is_finite_row(const T* values, Index length, Index step) {
  constexpr Index kAtOnce = 64;  // in vector instructions
  bool good = true;
  Index i = 0;
  for (; step == 1 && good && i + kAtOnce <= length; i += kAtOnce) {
    unsigned bad = 0;
    for (Index k = 0; k < kAtOnce; k++) bad |= is_finite_one(values[i + k]) ? 0U : 1U;
    good = bad == 0;
  }
  for (; good && i < length; i++) good = is_finite_one(values[i * step]);
  return good;
}

// In the order of memory.
template <class T>
bool all_finite(const std::byte* bytes, const std::vector<Index>& extents, const std::vector<Index>& strides) {
  std::vector<std::size_t> order(extents.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return strides[a] > strides[b]; });
  std::vector<Index> sizes, steps;
  for (const std::size_t d : order) {
    sizes.push_back(extents[d]);
    steps.push_back(strides[d]);
  }
  bool good = true;
  for_each_row(sizes, steps, steps, [&](const BoxRow& row) {
    good = good && is_finite_row(reinterpret_cast<const T*>(bytes) + row.a, row.length, row.a_step);
  });
  return good;
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
