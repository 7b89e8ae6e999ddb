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
};

std::vector<CompiledFormula>& compiled_formulas();

// At namespace scope in an op's file: `const Compiled kCompiled{forward(), gradient()};`
struct Compiled {
  Compiled(const std::vector<Formula>& formulas, Width width = Width::f32) {
    for (const Formula& f : formulas) compiled_formulas().push_back({f, width});
  }
};

}  // namespace motley
