// SPDX-License-Identifier: Apache-2.0
// result[...] combine= scale * f(operands[...]) over the fold's extents; where the result's stride is 0 the index is reduced.
#include <limits>

#include "kernels/operands.h"
#include "kernels/reference/reference.h"

namespace motley::reference {
namespace {

constexpr std::size_t kMostExtents = 16;

double load(const void* data, DType dtype, Index at) {
  switch (dtype) {
    case DType::f32: return static_cast<double>(static_cast<const float*>(data)[at]);
    case DType::f64: return static_cast<const double*>(data)[at];
    case DType::i32: return static_cast<double>(static_cast<const std::int32_t*>(data)[at]);
  }
  return 0;
}

void store(void* data, DType dtype, Index at, double value) {
  switch (dtype) {
    case DType::f32: static_cast<float*>(data)[at] = static_cast<float>(value); break;
    case DType::f64: static_cast<double*>(data)[at] = value; break;
    case DType::i32: static_cast<std::int32_t*>(data)[at] = static_cast<std::int32_t>(value); break;
  }
}

// Which of the extents a walk goes over, in row-major order.
struct Walk {
  std::array<std::size_t, kMostExtents> dims{};
  std::size_t count = 0;
};
using Position = std::array<Index, kMostExtents>;

// Steps the walk's indices (all 0 after the last); false: that was the last.
bool advance(const KernelSpec& spec, const Walk& walk, Position& at) {
  for (std::size_t i = walk.count; i-- > 0;) {
    const std::size_t dim = walk.dims[i];
    if (++at[dim] < spec.fold_extents[dim]) return true;
    at[dim] = 0;
  }
  return false;
}

bool is_empty(const KernelSpec& spec, const Walk& walk) {
  for (std::size_t i = 0; i < walk.count; i++)
    if (spec.fold_extents[walk.dims[i]] == 0) return true;
  return false;
}

Index offset_of(const KernelSpec& spec, std::size_t operand, const Position& at) {
  Index offset = 0;
  for (std::size_t i = 0; i < spec.fold_extents.size(); i++) offset += at[i] * spec.operands[operand].strides[i];
  return offset;
}

// f at one position: t(i) is operand i's element there.
template <class Term>
double function(const KernelSpec& spec, const Position& at, Term&& t) {
  const auto is_class = [&](double label) {
    return static_cast<double>(spec.first_class + at[static_cast<std::size_t>(spec.class_dim)]) == label;
  };
  switch (spec.fold) {
    case FoldKind::copy: return t(0);
    case FoldKind::square: return t(0) * t(0);
    case FoldKind::add: {
      double sum = 0;
      for (std::size_t i = 0; i + 1 < spec.operands.size(); i++) sum += t(i);
      return activate(spec.activation, sum);
    }
    case FoldKind::activation: return activate(spec.activation, t(0));
    case FoldKind::activation_gradient: return t(0) * activation_gradient(spec.activation, t(1));
    case FoldKind::sum_exp: return is_class(t(2)) ? 0 : std::exp(t(0) - t(1));
    case FoldKind::pick_label: return is_class(t(1)) ? t(0) : 0;
    case FoldKind::cross_entropy: {
      const double label = std::exp(t(2) - t(0)), others = t(1);
      return label > others ? std::log1p(others / label) : std::log(label + others) + t(0) - t(2);
    }
    case FoldKind::softmax_gradient:
      return (is_class(t(4)) ? -t(2) : std::exp(t(0) - t(1))) / (std::exp(t(3) - t(1)) + t(2)) * t(5);
  }
  return 0;
}

void run(const KernelSpec& spec, Operands operands, void*) {
  const std::size_t result = spec.operands.size() - 1;
  Walk kept, reduced;
  for (std::size_t i = 0; i < spec.fold_extents.size(); i++) {
    Walk& walk = spec.operands[result].strides[i] != 0 ? kept : reduced;
    walk.dims[walk.count++] = i;
  }
  const bool nothing = is_empty(spec, reduced);
  if (is_empty(spec, kept) || (nothing && spec.combine == Combine::set)) return;
  Position at{};
  const auto t = [&](std::size_t i) { return load(operands[i], spec.operands[i].dtype, offset_of(spec, i, at)); };
  do {
    double total = spec.combine == Combine::max ? -std::numeric_limits<double>::infinity() : 0;
    if (!nothing) {
      do {
        const double value = spec.scale * function(spec, at, t);
        if (spec.combine == Combine::set) total = value;
        if (spec.combine == Combine::add) total += value;
        if (spec.combine == Combine::max && (value > total || std::isnan(value))) total = value;  // a NaN stays
      } while (advance(spec, reduced, at));
    }
    store(operands[result], spec.operands[result].dtype, offset_of(spec, result, at), total);
  } while (advance(spec, kept, at));
}

}  // namespace

Run fold(const KernelSpec& spec) {
  const std::size_t extents = spec.fold_extents.size(), operands = spec.operands.size();
  check(spec.pass == PassKind::forward, "a fold has one pass");
  check(extents <= kMostExtents, "a fold has at most 16 extents");
  check(operands > 0 && fold_inputs(spec.fold, operands - 1) == operands - 1, "a fold has the operands of its function");
  for (const FoldOperand& operand : spec.operands)
    check(operand.strides.size() == extents, "a fold operand has one stride per extent");
  check(label_operand(spec.fold) < 0 || (spec.class_dim >= 0 && static_cast<std::size_t>(spec.class_dim) < extents),
        "class_dim is one of the extents");
  if (spec.combine == Combine::set)
    for (std::size_t i = 0; i < extents; i++)
      check(spec.operands.back().strides[i] != 0 || spec.fold_extents[i] <= 1, "set has no reduced index");
  return run;
}

}  // namespace motley::reference
