// SPDX-License-Identifier: Apache-2.0
// Formulas that run often. Each becomes a loop per ISA when motley is built (write_formulas.cpp); all others are interpreted.
#pragma once
#include <vector>

#include "kernels/value.h"

namespace motley {

enum class Width : std::uint8_t { f32, f64 };  // of its registers

struct CompiledFormula {
  Formula formula{};
  Width width = Width::f32;
  std::uint32_t still = 0;  // a bit for each operand that has one value along the row; 0: a loop for any
  bool summed = false;      // loops that add are made too
  std::uint32_t fixed = 0;  // a bit for each operand that is the same in all rows: a second loop, which reads them once for several
  std::uint32_t wide = 0;   // of summed ones, where registers are f64: a bit for each operand that is f64 in memory too
};
// One that runs along rows of which the operands in `still` have one value each.
struct RowFormula {
  Formula formula{};
  std::vector<int> still{};
  bool summed = false;       // maps that add have it, along rows or across them
  std::vector<int> fixed{};  // these operands are the same in each row (of summed ones: that is added to the others)
  std::vector<int> wide{};   // these operands are f64, and so are the registers; none: all is f32
};

const std::vector<CompiledFormula>& compiled_formulas();

// At namespace scope in an op's file: `const Compiled kCompiled{forward(), gradient()};`
struct Compiled {
  Compiled(const std::vector<Formula>& formulas, Width width = Width::f32);
  explicit Compiled(const std::vector<RowFormula>& formulas);
  // Of other files' ops too: called when all of these are there.
  explicit Compiled(std::vector<RowFormula> (*formulas)());
};

// A step of `formula` inside another one, as join_maps makes it: its operands get the numbers from `first` on, in the order in
// which they are read.
Value in_order(const Formula& formula, int first);
// The same of a sum of two.
Value sum_in_order(const Value& a, const Value& b);

}  // namespace motley
