// SPDX-License-Identifier: Apache-2.0
// A Formula as statements: one constant per instruction.
#pragma once
#include <motley/formula.h>

#include <functional>
#include <string>
#include <vector>

namespace motley::cuda {

// Expressions of what a formula reads. operand: a real number; integer, position: an int.
struct FormulaReads {
  std::function<std::string(int number)> operand{}, integer{}, position{};
};
struct FormulaText {
  std::string statements{};            // each on a line of its own
  std::vector<std::string> results{};  // expressions
};
// wide: registers are double, else float.
FormulaText formula_text(const Formula& formula, bool wide, const FormulaReads& reads);

}  // namespace motley::cuda
