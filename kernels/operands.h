// SPDX-License-Identifier: Apache-2.0
// The operands of Kernel::run, computed from the spec: for callers that allocate, fill, count or compare them.
#pragma once
#include <motley/kernel_spec.h>

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

namespace motley {

// Alignment of the operands of convolutions, dense layers and pools on a device with separate memory: its vectors require it.
inline constexpr int kDeviceAlignment = 16;

inline bool is_pool(KernelOp op) {
  return op == KernelOp::max_pool2d || op == KernelOp::avg_pool2d;
}
inline bool is_window(KernelOp op) {
  return op == KernelOp::conv2d || is_pool(op);
}

// Number of operands that are written, the last ones.
inline std::size_t result_count(const KernelSpec& spec) {
  if (spec.op == KernelOp::attention) return static_cast<std::size_t>(std::popcount(static_cast<std::uint64_t>(spec.made)));
  return static_cast<std::size_t>(result_count(spec.formula));
}
// Number of a map's operands before its results.
inline std::size_t input_count(const KernelSpec& spec) {
  return static_cast<std::size_t>(spec.summands) + static_cast<std::size_t>(std::max(1, operand_count(spec.formula)) - 1);
}
// The kernel's operand that is the formula's operand k.
inline std::size_t operand_at(const KernelSpec& spec, int k) {
  return static_cast<std::size_t>(spec.summands + k - 1);
}
// The formula's operand that is the kernel's operand i; -1: one of several summands.
inline int formula_operand(const KernelSpec& spec, std::size_t i) {
  const int k = static_cast<int>(i) - static_cast<int>(spec.summands) + 1;
  return k < 0 || (k == 0 && spec.summands != 1) ? -1 : k;
}
inline bool is_integer(const KernelSpec& spec, std::size_t input) {
  const int k = formula_operand(spec, input);
  return k >= 0 && is_integer_operand(spec.formula, k);
}
inline bool is_scalar(const KernelSpec& spec, std::size_t input) {
  const int k = formula_operand(spec, input);
  return k >= 0 && is_scalar_operand(spec.formula, k);
}
inline bool is_copy(const KernelSpec& spec) {  // without any arithmetic
  return spec.op == KernelOp::map && spec.formula.code.empty() && spec.summands == 1 && spec.combine == Combine::set &&
         spec.scale == 1;
}
// Whether registers are f64: in f64 plans; if a result is f64; but in a reduction, whose sums are f64 in any case, if an operand
// is.
inline bool is_wide(const KernelSpec& spec) {
  if (spec.dtype == DType::f64) return true;
  const std::size_t inputs = input_count(spec);
  for (std::size_t i = 0; i < spec.operands.size(); i++)
    if (spec.operands[i].dtype == DType::f64 && (i < inputs) == (spec.combine != Combine::set) &&
        !(i < inputs && is_scalar(spec, i)))
      return true;
  return false;
}
// The same computation with f32 operands, for a bf16 spec.
KernelSpec in_f32(KernelSpec spec);
// InternalError: a map whose parts are inconsistent.
void check_map(const KernelSpec& spec);

// Results of attention, as bits of KernelSpec::made.
inline constexpr Index kMakesOutput = 1, kMakesLogSum = 2;
inline constexpr Index kMakesQuery = 1, kMakesKey = 2, kMakesValue = 4;
// For attention: where head g begins in an operand with `rows` queries or keys, and the distance from one of these to the next.
inline Index head_begin(const KernelSpec& spec, Index g, Index rows) {
  return (g / spec.heads * rows * spec.heads + g % spec.heads) * spec.roles.c;
}
inline Index head_step(const KernelSpec& spec) {
  return spec.heads * spec.roles.c;
}
// InternalError: attention whose parts are inconsistent.
void check_attention(const KernelSpec& spec);
// Number of keys, counted from the first, that are at or before query i.
inline Index keys_of(const KernelSpec& spec, Index i) {
  if (!spec.causal) return spec.roles.f;
  return std::clamp<Index>(spec.origin[0] + i + 1 - spec.origin[1], 0, spec.roles.f);
}

struct OperandUse {
  DType dtype = DType::f32;
  Format format = Format::plain;
  std::vector<Index> extents{};  // of the dense slice; for a map's operand: {elements}
  Index elements = 0;            // from element 0 to the last one, including strided gaps
  Index touched = 0;             // elements really read or written
  bool read = true, written = false;
  Index bytes() const { return elements * static_cast<Index>(bytes_of(dtype)); }
};

// In run()'s order, the result last (a map's results last).
std::vector<OperandUse> operands_of(const KernelSpec& spec);

}  // namespace motley
