// SPDX-License-Identifier: Apache-2.0
// result[...] combine= scale * formula(operands[...]) over the map's extents; an index along which the result's stride is 0 is
// reduced.
#include <motley/error.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/operands.h"
#include "kernels/reference/reference.h"

namespace motley::reference {
namespace {

double load(const void* data, DType dtype, Index at) {
  switch (dtype) {
    case DType::f32: return static_cast<double>(static_cast<const float*>(data)[at]);
    case DType::f64: return static_cast<const double*>(data)[at];
    case DType::i32: return static_cast<double>(static_cast<const std::int32_t*>(data)[at]);
    case DType::bf16: return static_cast<double>(static_cast<const Bf16*>(data)[at]);
  }
  return 0;
}

void store(void* data, DType dtype, Index at, double value) {
  switch (dtype) {
    case DType::f32: static_cast<float*>(data)[at] = static_cast<float>(value); break;
    case DType::f64: static_cast<double*>(data)[at] = value; break;
    case DType::i32: static_cast<std::int32_t*>(data)[at] = static_cast<std::int32_t>(value); break;
    case DType::bf16: static_cast<Bf16*>(data)[at] = Bf16(value); break;
  }
}

// The extents that a walk traverses, in row-major order.
struct Walk {
  std::array<std::size_t, kMostExtents> dims{};
  std::size_t count = 0;
};

// The index along each extent, and where each operand's element is.
struct Position {
  std::array<Index, kMostExtents> at{};
  std::vector<Index> offsets{};  // [operand]
};

// Advances the walk's indices (all 0 after the last position); false: that was the last.
bool advance(const KernelSpec& spec, const Walk& walk, Position& position) {
  const auto move = [&](std::size_t dim, Index by) {
    for (std::size_t i = 0; i < position.offsets.size(); i++) position.offsets[i] += by * spec.operands[i].strides[dim];
  };
  for (std::size_t i = walk.count; i-- > 0;) {
    const std::size_t dim = walk.dims[i];
    move(dim, 1);
    if (++position.at[dim] < spec.extents[dim]) return true;
    position.at[dim] = 0;
    move(dim, -spec.extents[dim]);
  }
  return false;
}

bool is_empty(const KernelSpec& spec, const Walk& walk) {
  for (std::size_t i = 0; i < walk.count; i++)
    if (spec.extents[walk.dims[i]] == 0) return true;
  return false;
}

void run(const KernelSpec& spec, Operands operands, void*) {
  const std::size_t results = result_count(spec), first = spec.operands.size() - results;
  Walk kept, reduced;
  for (std::size_t i = 0; i < spec.extents.size(); i++) {
    Walk& walk = spec.operands[first].strides[i] != 0 || spec.extents[i] == 1 ? kept : reduced;
    walk.dims[walk.count++] = i;
  }
  const bool nothing = is_empty(spec, reduced);
  if (is_empty(spec, kept) || (nothing && spec.combine == Combine::set)) return;
  const PlainFormula formula = plain_of(spec.formula);
  Registers<double> registers;
  Position now{{}, std::vector<Index>(spec.operands.size(), 0)};
  const auto element = [&](std::size_t i) { return load(operands[i], spec.operands[i].dtype, now.offsets[i]); };
  const auto operand = [&](int k) {
    if (k > 0 || spec.summands == 1) return element(operand_at(spec, k));
    double sum = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(spec.summands); i++) sum += element(i);
    return sum;
  };
  const auto integer = [&](int k) { return static_cast<std::int32_t>(element(operand_at(spec, k))); };
  const auto position = [&](int extent) {
    const auto d = static_cast<std::size_t>(extent);
    return static_cast<std::int32_t>(spec.origin[d] + now.at[d]);
  };
  do {
    std::array<double, kMostOperands> totals{};
    totals.fill(spec.combine == Combine::max ? -std::numeric_limits<double>::infinity() : 0);
    if (!nothing) {
      do {
        motley::run(formula, registers, operand, integer, position);
        for (std::size_t k = 0; k < results; k++) {
          const double value = registers.real[formula.results[k]];
          double& total = totals[k];
          if (spec.combine == Combine::set) total = value;
          if (spec.combine == Combine::add) total += value;
          if (spec.combine == Combine::max && (value > total || std::isnan(value))) total = value;  // a NaN is kept
        }
      } while (advance(spec, reduced, now));
    }
    for (std::size_t k = 0; k < results; k++)
      store(operands[first + k], spec.operands[first + k].dtype, now.offsets[first + k], spec.scale * totals[k]);
  } while (advance(spec, kept, now));
}

}  // namespace

Run map(const KernelSpec& spec) {
  check_map(spec);
  if (spec.extents.size() > kMostExtents)
    throw DeviceError("a map over " + std::to_string(spec.extents.size()) + " extents: the reference's loops take at most " +
                      std::to_string(kMostExtents));
  return run;
}

}  // namespace motley::reference
