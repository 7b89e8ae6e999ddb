// SPDX-License-Identifier: Apache-2.0
/// @file
/// A straight-line program of scalars: what a map computes at each position.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace motley {
/// @addtogroup kernels
/// @{

/// What one instruction computes from registers a, b, c. Values are real numbers unless said otherwise; no two instructions are
/// fused.
enum class Opcode : std::uint8_t {
  operand,     ///< the element of operand a
  integer,     ///< integer: the element of operand a, which is i32
  scalar,      ///< operand a, which is one f64 number
  constant,    ///< the number `value`
  position,    ///< integer: the global index along the kernel's extent a
  add,         ///< a + b
  sub,         ///< a - b
  mul,         ///< a * b
  div,         ///< a / b
  less,        ///< condition: a < b
  less_equal,  ///< condition: a <= b
  equal,       ///< condition: a == b
  matches,     ///< condition, of two integers: a == b
  precedes,    ///< condition, of two integers: a < b
  select,      ///< b where condition a holds, else c
  exp,         ///< e^a
  expm1,       ///< e^a - 1
  log,         ///< the natural logarithm of a
  log1p,       ///< log(1 + a)
  sqrt,        ///< the square root of a
  tanh,        ///< the hyperbolic tangent of a
  erf,         ///< the error function of a
  /// integer: the bits of integers a and b mixed, x = a ^ b * 0x9E3779B1; x = (x ^ x >> 16) * 0x7FEB352D; x = (x ^ x >> 15) *
  /// 0x846CA68B; x ^ x >> 16, modulo 2^32 (multipliers: Wellons, "Prospecting for Hash Functions", lowbias32)
  mix,
  uniform,  ///< in [0, 1): the 24 high bits of integer a, times 2^-24
  whole     ///< integer: `value`, between -2^24 and 2^24
};

/// One instruction; it writes the register with the instruction's own number.
struct Instruction {
  Opcode op = Opcode::constant;  ///< what it computes
  int a = -1;        ///< an earlier register; for operand, integer, scalar: the operand's number; for position: the extent
  int b = -1;        ///< an earlier register
  int c = -1;        ///< an earlier register
  double value = 0;  ///< of constant and whole
  bool operator==(const Instruction&) const = default;
};

/// At most kMostInstructions instructions. Without code: the first operand unchanged.
struct Formula {
  std::vector<Instruction> code{};  ///< in order
  std::vector<int> results{};       ///< registers of real numbers that are stored, in the order of the kernel's results
  bool operator==(const Formula&) const = default;
};

inline constexpr int kMostInstructions = 64;  ///< of a Formula
inline constexpr int kMostOperands = 16;      ///< of a Formula: operands, and results
inline constexpr int kMostSums = 4;           ///< of a Formula whose results are reduced: results

inline constexpr int kMostWhole = 1 << 24;  ///< largest magnitude of Opcode::whole: f32 represents it exactly

int operand_count(const Formula& formula);                     ///< Operands that it reads: 1 more than the greatest operand number.
int result_count(const Formula& formula);                      ///< Values that it stores, 1 or more.
int integer_operand(const Formula& formula);                   ///< The first operand that is i32; -1: none.
bool is_integer_operand(const Formula& formula, int operand);  ///< Whether this one is i32.
bool is_scalar_operand(const Formula& formula, int operand);   ///< Whether this one is read as a scalar.
bool reads_position(const Formula& formula, int extent);       ///< Whether the index along this extent is used; -1: along any.
std::string summary(const Formula& formula);                   ///< As an expression, "t0 * (1 - t0)"; a long one as its length.
/// "operand 0; constant 0; less_equal 0 1; select 2 1 0 -> 3"; empty without code.
std::string to_text(const Formula& formula);
/// The inverse of to_text(). UserError: not a formula, or one that no kernel could run (registers out of order, mixed kinds, too
/// long).
Formula formula_from(const std::string& text);
/// Evaluates in f64. `operands` has operand_count() values; the formula has no i32 operand and reads no position.
std::vector<double> evaluate(const Formula& formula, const std::vector<double>& operands);

/// @}
}  // namespace motley
