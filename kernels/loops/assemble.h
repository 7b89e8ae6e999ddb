// SPDX-License-Identifier: Apache-2.0
// Loops in machine code, for formulas that no op declares: those that fusing has made from several, and those of a user.
#pragma once
#include "kernels/loops/loops.h"

namespace motley::cpu {

// A loop as returned by Loops::compiled, with f32 registers and the same bits as the interpreted formula: instruction by
// instruction, none fused with another one. Made once for all formulas of a shape and never freed. Null: the formula must be
// interpreted, because it has positions or random numbers, or more registers or operands than the CPU; `simd` is generic, or avx512
// and the formula has functions (exp), for which the interpreter's vectors are wider; there is no Xbyak; or the system gives no
// executable memory. shape: FormulaShape::hash of the formula.
FormulaLoop assembled(const PlainFormula& formula, std::uint64_t shape, Simd simd, std::uint32_t still);

}  // namespace motley::cpu
