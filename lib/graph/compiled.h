// SPDX-License-Identifier: Apache-2.0
// Formulas that run often. Each becomes a loop per ISA when motley is built (write_formulas.cpp); all other formulas are
// interpreted.
#pragma once
#include <vector>

#include "kernels/value.h"

namespace motley {

enum class Width : std::uint8_t { f32, f64 };  // of the formula's registers

struct CompiledFormula {
  Formula formula{};
  Width width = Width::f32;
  std::uint32_t still = 0;  // a bit for each operand that has one value along a row; 0: the loop handles any operands
  bool summed = false;      // loops that add are generated too
  std::uint32_t fixed = 0;  // a bit for each operand that is the same in all rows: a second loop is generated, which reads these
                            // once for several rows
  std::uint32_t wide = 0;   // with summed, where registers are f64: a bit for each operand that is f64 in memory too
};
// A formula that runs along rows; each operand in `still` has one value along a row.
struct RowFormula {
  Formula formula{};
  std::vector<int> still{};
  bool summed = false;       // maps that add, along rows or across them, use it
  std::vector<int> fixed{};  // these operands are the same in each row (with summed: in addition to the other loops)
  std::vector<int> wide{};   // these operands are f64, and so are the registers; none: all are f32
};

const std::vector<CompiledFormula>& compiled_formulas();

// At namespace scope in an op's file: `const Compiled kSoftmaxCompiled{forward(), gradient()};`; the name is the op's.
struct Compiled {
  Compiled(const std::vector<Formula>& formulas, Width width = Width::f32);
  explicit Compiled(const std::vector<RowFormula>& formulas);
  // Includes formulas of ops in other files: the function is called when all of these exist.
  explicit Compiled(std::vector<RowFormula> (*formulas)());
};

// A step of `formula` inside another one, as join_maps makes it: its operands are numbered from `first` on, in the order in which
// they are read.
Value in_order(const Formula& formula, int first);

}  // namespace motley
