// SPDX-License-Identifier: Apache-2.0
// Loops in machine code, for formulas that no op declares: what fusing made of several.
#pragma once
#include "kernels/loops/loops.h"

namespace motley::cpu {

// A loop as Loops::compiled has them, of f32 registers, with the same bits as what is interpreted: instruction by instruction, none
// fused with another one. Made once for all formulas of a shape and never freed. Null: the formula is to be interpreted. It has
// functions (exp), positions or random numbers, or more registers or operands than the CPU; `simd` is generic; there is no Xbyak;
// or the system gives no memory that code may run in. shape: FormulaShape::hash of the formula.
FormulaLoop assembled(const PlainFormula& formula, std::uint64_t shape, Simd simd, std::uint32_t still);

}  // namespace motley::cpu
