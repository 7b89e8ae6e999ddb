// SPDX-License-Identifier: Apache-2.0
// A map's formula as text: what it computes, and its gradients. docs/own_ops.md has the language.
#pragma once
#include <motley/formula.h>

#include <string>
#include <vector>

namespace motley {

inline constexpr std::size_t kMostFormulaText = 4096;  // characters
inline constexpr int kMostNesting = 64;                // parentheses inside each other

// How dx of one operand is computed: formula(dy, operands that it reads).
struct MapGradient {
  std::vector<int> reads{};  // numbers of these operands, in the order of the formula's operands 1, 2, ...; 0 is dy
  Formula formula{};
  // The formula is the slope alone, of the operands 0, 1, ...: with dy there would be too many operands. dx = dy slope.
  bool apart = false;
  bool zero = false;  // the slope is 0 everywhere; there is no formula
};

struct MapFormula {
  Formula value{};                       // of t0, t1, ...
  std::vector<MapGradient> gradients{};  // one per operand
};

// The words that a formula may have.
const std::vector<std::string>& map_words();

// A map of so many tensors, each of which it must read. UserError: what is wrong, and where in the text.
MapFormula parse_map(const std::string& text, std::size_t operands);

}  // namespace motley
