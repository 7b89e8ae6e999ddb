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

/// What one instruction computes from registers a, b, c. Real numbers unless said otherwise; no instruction is fused with another.
enum class Opcode : std::uint8_t {
  operand,     ///< the element of operand a
  integer,     ///< integer: the element of operand a, which is i32
  scalar,      ///< operand a, which is one f64 number
  constant,    ///< value
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
  /// integer, of two: their bits mixed, x = a ^ b * 0x9E3779B1; x = (x ^ x >> 16) * 0x7FEB352D; x = (x ^ x >> 15) * 0x846CA68B;
  /// x ^ x >> 16, modulo 2^32 (multipliers: Wellons, "Prospecting for Hash Functions", lowbias32)
  mix,
  uniform,  ///< in [0, 1): the 24 high bits of integer a, times 2^-24
  whole     ///< integer: value, between -2^24 and 2^24
};

/// One instruction; its result is the register of its own number.
struct Instruction {
  Opcode op = Opcode::constant;  ///< what it computes
  int a = -1;                    ///< register before this one; of operand, integer, position: which
  int b = -1;                    ///< register before this one
  int c = -1;                    ///< register before this one
  double value = 0;              ///< of constant and whole
  bool operator==(const Instruction&) const = default;
};

/// At most kMostInstructions of them. No code: the first operand as it is.
struct Formula {
  std::vector<Instruction> code{};  ///< in order
  std::vector<int> results{};       ///< registers of real numbers that are stored, in the order of the kernel's results
  bool operator==(const Formula&) const = default;
};

inline constexpr int kMostInstructions = 64;  ///< of a Formula
inline constexpr int kMostOperands = 16;      ///< of a Formula: operands, and results

inline constexpr int kMostWhole = 1 << 24;  ///< of Opcode::whole, either sign: f32 holds it

int operand_count(const Formula& formula);                     ///< Operands that it reads: 1 more than the greatest number.
int result_count(const Formula& formula);                      ///< Values that it stores, 1 or more.
int integer_operand(const Formula& formula);                   ///< The first operand that is i32; -1: none.
bool is_integer_operand(const Formula& formula, int operand);  ///< Whether this one is i32.
bool is_scalar_operand(const Formula& formula, int operand);   ///< Whether this one is read as a scalar.
bool reads_position(const Formula& formula, int extent);       ///< Whether the index along this extent is used; -1: along any.
std::string summary(const Formula& formula);                   ///< As an expression, "t0 * (1 - t0)"; a long one as its length.
/// "operand 0; constant 0; less_equal 0 1; select 2 1 0 -> 3"; empty without code.
std::string to_text(const Formula& formula);
/// The inverse. UserError: what is not one, or what a kernel could not run (registers out of order, mixed kinds, too long).
Formula formula_from(const std::string& text);
/// In f64. operands: as many as operand_count(); none of them i32, no positions.
std::vector<double> evaluate(const Formula& formula, const std::vector<double>& operands);

/// @}
}  // namespace motley
