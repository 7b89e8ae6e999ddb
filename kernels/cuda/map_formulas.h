// SPDX-License-Identifier: Apache-2.0
// One position of a map's results, or one part of a reduced result. For host and device, as window_formulas.h.
#pragma once
#include <motley/kernel_spec.h>

#include <cstring>

#include "kernels/evaluate.h"

namespace motley::cuda {

constexpr int kMostMapExtents = 10;    // after joining
constexpr int kArgumentOperands = 15;  // of a map's inputs, passed as the kernel's arguments (4 KiB in all)
constexpr int kMostResults = 5;        // of a map
constexpr int kTableOperands = 40;     // entries that one launch of MapTable writes, passed as kernel arguments too

// An operand in a table in the workspace: a sum may have any number of operands.
struct MapOperandAt {
  const void* data = nullptr;
  Index stride[kMostMapExtents] = {};
  DType dtype = DType::f32;
};

struct MapPlan {
  Combine combine = Combine::set;
  double scale = 1;
  int inputs = 0, results = 1, summands = 1;  // operands
  int in_table = 0, arguments = 0;            // inputs: the first summands are in the table, all others are arguments
  int extents = 0, kept = 0;                  // the kept extents come first; the reduced ones in index order
  Index size[kMostMapExtents] = {};
  Index stride[kMostMapExtents][kArgumentOperands] = {};
  Index result_stride[kMostMapExtents][kMostResults] = {};
  DType dtype[kArgumentOperands] = {}, result_dtype[kMostResults] = {};
  std::int8_t position[kMostOperands] = {};  // along which of these extents the formula's position runs; -1: none
  std::int32_t origin[kMostOperands] = {};   // value at that extent's index 0
  Index elements = 0, terms = 0, parts = 1;  // of a result; reduced to one element; number of parts of such a reduction
};

// Bf16's own conversions can only be called on the host.
MOTLEY_HD inline double widened(Bf16 value) {
  const std::uint32_t bits = static_cast<std::uint32_t>(value.bits) << 16;
  float out = 0;
  memcpy(&out, &bits, sizeof out);
  return static_cast<double>(out);
}
MOTLEY_HD inline std::uint16_t narrowed(float value) {
  std::uint32_t f = 0;
  memcpy(&f, &value, sizeof f);
  const std::uint32_t nearest = f + 0x7fff + (f >> 16 & 1), nan = f | 0x400000;
  return static_cast<std::uint16_t>(((f & 0x7fffffff) > 0x7f800000 ? nan : nearest) >> 16);
}

MOTLEY_HD inline double element_of(const void* data, DType dtype, Index at) {
  if (dtype == DType::f64) return static_cast<const double*>(data)[at];
  if (dtype == DType::bf16) return widened(static_cast<const Bf16*>(data)[at]);
  return dtype == DType::f32 ? static_cast<double>(static_cast<const float*>(data)[at])
                             : static_cast<double>(static_cast<const std::int32_t*>(data)[at]);
}
MOTLEY_HD inline void store_element(void* data, DType dtype, Index at, double value) {
  if (dtype == DType::f64) static_cast<double*>(data)[at] = value;
  if (dtype == DType::f32) static_cast<float*>(data)[at] = static_cast<float>(value);
  if (dtype == DType::i32) static_cast<std::int32_t*>(data)[at] = static_cast<std::int32_t>(value);
  if (dtype == DType::bf16) static_cast<Bf16*>(data)[at].bits = narrowed(static_cast<float>(value));
}

struct Widen {
  const Bf16* from;
  float* to;
  MOTLEY_HD void operator()(Index i) const { to[i] = static_cast<float>(widened(from[i])); }
};
struct Narrow {
  const float* from;
  Bf16* to;
  MOTLEY_HD void operator()(Index i) const { to[i].bits = narrowed(from[i]); }
};

template <class Real>
struct Map {
  MapPlan p;
  PlainFormula formula;
  const void* operand[kArgumentOperands];
  const MapOperandAt* table;  // [in_table]
  void* result[kMostResults];
  double* partial;  // [results][parts][elements], if parts > 1

  struct Position {
    Index offset[kArgumentOperands] = {};
    Index result[kMostResults] = {};
    Index at[kMostMapExtents] = {};
  };
  MOTLEY_HD void place(Position& here, int begin, int end, Index i) const {
    for (int d = end - 1; d >= begin; d--) {
      here.at[d] = i % p.size[d];
      i /= p.size[d];
      for (int k = 0; k < p.arguments; k++) here.offset[k] += here.at[d] * p.stride[d][k];
      for (int k = 0; k < p.results; k++) here.result[k] += here.at[d] * p.result_stride[d][k];
    }
  }
  MOTLEY_HD void advance(Position& here) const {  // the reduced extents
    for (int d = p.extents - 1; d >= p.kept; d--) {
      const bool carry = ++here.at[d] == p.size[d];
      const Index steps = carry ? 1 - p.size[d] : 1;
      if (carry) here.at[d] = 0;
      for (int k = 0; k < p.arguments; k++) here.offset[k] += steps * p.stride[d][k];
      if (!carry) return;
    }
  }
  MOTLEY_HD double argument(int k, const Position& here) const { return element_of(operand[k], p.dtype[k], here.offset[k]); }
  MOTLEY_HD double in_table(int k, const Position& here) const {
    Index offset = 0;
    for (int d = 0; d < p.extents; d++) offset += here.at[d] * table[k].stride[d];
    return element_of(table[k].data, table[k].dtype, offset);
  }
  MOTLEY_HD double first(const Position& here) const {
    if (p.summands == 1) return argument(0, here);
    double sum = 0;
    for (int k = 0; k < p.in_table; k++) sum += in_table(k, here);
    for (int k = 0; k < p.summands - p.in_table; k++) sum += argument(k, here);
    return sum;
  }
  MOTLEY_HD void compute(Registers<Real>& registers, const Position& here) const {
    const int others = p.summands - 1 - p.in_table;  // the formula's operand k is argument k + others
    run(
        formula, registers, [&](int k) { return static_cast<Real>(k == 0 ? first(here) : argument(k + others, here)); },
        [&](int k) { return static_cast<std::int32_t>(argument(k + others, here)); },
        [&](int k) { return p.origin[k] + (p.position[k] < 0 ? 0 : static_cast<std::int32_t>(here.at[p.position[k]])); });
  }
  MOTLEY_HD double combined(double total, double value) const {
    if (p.combine == Combine::add) return total + value;
    if (p.combine == Combine::max) return value > total || value != value ? value : total;  // a NaN wins
    return value;
  }
  MOTLEY_HD double none() const { return p.combine == Combine::max ? -HUGE_VAL : 0; }

  // i: below parts * elements; adds a part of the reduced values in index order.
  MOTLEY_HD void operator()(Index i) const {
    const Index part = i / p.elements, element = i % p.elements;
    const Index begin = p.terms * part / p.parts, end = p.terms * (part + 1) / p.parts;
    Position here;
    Registers<Real> registers;
    place(here, 0, p.kept, element);
    if (begin < end) place(here, p.kept, p.extents, begin);
    double totals[kMostResults];  // in registers: every index is a compile-time constant
    for (int k = 0; k < kMostResults; k++) totals[k] = none();
    for (Index t = begin; t < end; t++) {
      compute(registers, here);
      for (int k = 0; k < kMostResults; k++)
        if (k < p.results) totals[k] = combined(totals[k], static_cast<double>(registers.real[formula.results[k]]));
      advance(here);
    }
    for (int k = 0; k < kMostResults; k++) {
      if (k >= p.results) return;
      if (p.parts > 1)
        partial[k * p.parts * p.elements + i] = totals[k];
      else
        store_element(result[k], p.result_dtype[k], here.result[k], p.scale * totals[k]);
    }
  }
};

// Combines the parts of one element, in order.
template <class Real>
struct MapParts {
  Map<Real> map;
  MOTLEY_HD void operator()(Index element) const {
    typename Map<Real>::Position here;
    map.place(here, 0, map.p.kept, element);
    const double* partial = map.partial + element;
    for (int k = 0; k < map.p.results; k++) {
      double total = map.none();
      for (Index part = 0; part < map.p.parts; part++, partial += map.p.elements) total = map.combined(total, *partial);
      store_element(map.result[k], map.p.result_dtype[k], here.result[k], map.p.scale * total);
    }
  }
};

// Writes up to kTableOperands entries of Map::table: in the same queue, hence before the map reads them.
struct MapTable {
  MapOperandAt entries[kTableOperands];
  MapOperandAt* to;
  MOTLEY_HD void operator()(Index i) const { to[i] = entries[i]; }
};

static_assert(sizeof(Map<double>) <= 4000 && sizeof(MapTable) <= 4000, "beside a launch's own words within 4 KiB of arguments");

}  // namespace motley::cuda
