// SPDX-License-Identifier: Apache-2.0
// A formula as instructions that a CPU has for vectors of floats: functions such as exp as the steps of math.inc, in the same
// order, so that the bits are the same.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/evaluate.h"

namespace motley::cpu {

enum class LaneOp : std::uint8_t {
  formula,       // Opcode `op`
  number,        // the float, or integer, with these bits; read by one instruction
  greater,       // b < a: a, else b (maxps)
  smaller,       // a < b: a, else b (minps)
  plus,          // integers: a + b
  minus,         // integers: a - b
  left,          // integer: a << bits
  right,         // integer: a >> bits, with its sign
  bits_of_both,  // a & b
  bits_of_any    // a | b
};

struct LaneInstruction {
  LaneOp lane = LaneOp::formula;
  Opcode op = Opcode::constant;  // of LaneOp::formula
  int a = -1, b = -1, c = -1;    // earlier instructions; for operand, integer, scalar: the operand's number
  std::uint32_t bits = 0;        // of LaneOp::number, left and right
};

struct LaneCode {
  std::vector<LaneInstruction> code{};
  std::vector<int> results{};  // instructions, in the order of the formula's results
  bool has_functions = false;
};

// Whether lane_code() has steps for it: not for positions and random numbers.
bool has_lane_code(Opcode op);
LaneCode lane_code(const PlainFormula& formula);

}  // namespace motley::cpu
