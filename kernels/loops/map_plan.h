// SPDX-License-Identifier: Apache-2.0
// Puts a map's extents into the order in which our loops are fast, and cuts the work into units.
#pragma once
#include <array>
#include <memory>
#include <vector>

#include "kernels/loops/loops.h"

namespace motley::cpu {

// Of a formula that is interpreted: see MapLoop.
struct Registers {
  int count = 0, full = 0;  // slots, and those of them that hold a value for each element
  std::array<std::int8_t, kMostInstructions> slots{};
  std::array<bool, kMostInstructions> copied{};
};

struct MapPlan {
  MapLoop loop{};  // points into the lists below
  PlainFormula formula{};
  std::uint64_t shape = 0;  // FormulaShape::hash; 0: the operand itself
  std::vector<Index> extents{}, strides{};
  std::vector<DType> dtypes{};
  std::vector<char> scalars{};
  std::vector<float> constants{};  // of a compiled formula
  std::vector<double> wide_constants{};
  Registers registers{};  // of an interpreted one
  Index units = 0;        // of Loops::map, independent of each other; 0: nothing to do
  Index elements = 0;     // of all operands together
};

bool supports_map(const KernelSpec& spec);  // no more extents and sums than our loops walk
// By reference from its kernel: the plan's address stays. DeviceError: what our loops do not support.
// InternalError: a broken spec.
std::unique_ptr<const MapPlan> plan_map(const KernelSpec& spec, const Loops& loops, int threads);

}  // namespace motley::cpu
