// SPDX-License-Identifier: Apache-2.0
// Puts a map's extents into an order in which our loops are fast, and divides the work into units.
#pragma once
#include <array>
#include <memory>
#include <vector>

#include "kernels/loops/loops.h"

namespace motley::cpu {

// Registers of an interpreted formula: see MapLoop.
struct Registers {
  int count = 0, full = 0;  // slots, and how many of them hold a value for each element
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
  std::vector<float> constants{};  // for a compiled formula
  std::vector<double> wide_constants{};
  Registers registers{};  // for an interpreted formula
  Index units = 0;        // for Loops::map, independent of each other; 0: nothing to do
  Index elements = 0;     // of all operands together
};

bool supports_map(const KernelSpec& spec);  // false: more extents or sums than our loops support
// Returned by pointer to its kernel: the plan's address must not change. DeviceError: what our loops do not support. InternalError:
// an invalid spec.
std::unique_ptr<const MapPlan> plan_map(const KernelSpec& spec, const Loops& loops, int threads);

}  // namespace motley::cpu
