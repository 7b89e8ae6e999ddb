// SPDX-License-Identifier: Apache-2.0
// Formulas are written as expressions over Values, which are recorded. `formula({1.0 / (1.0 + exp(-operand(0)))})`
#pragma once
#include <motley/formula.h>

#include <functional>
#include <memory>
#include <vector>

namespace motley {

// A scalar that depends on operands and positions; equal expressions become one instruction.
class Value {
 public:
  struct Term {
    Opcode op = Opcode::constant;
    int number = -1;  // number of the operand or the position
    double constant = 0;
    std::vector<Value> of{};
  };
  Value(double constant);
  explicit Value(Term term);
  const Term& term() const { return *term_; }

 private:
  std::shared_ptr<const Term> term_;
};

Value operand(int number);
Value integer(int number);   // an i32 operand, for matches(), precedes() and mix()
Value whole(int constant);   // an integer, for the same
Value scalar(int number);    // an f64 operand of one element
Value position(int extent);  // number of one of a pass's indices; for matches(), precedes() and mix()
Value operator+(const Value& a, const Value& b);
Value operator-(const Value& a, const Value& b);
Value operator*(const Value& a, const Value& b);
Value operator/(const Value& a, const Value& b);
Value operator-(const Value& a);
Value operator<(const Value& a, const Value& b);  // a condition, only for select(); false if a or b is NaN
Value operator<=(const Value& a, const Value& b);
Value operator==(const Value& a, const Value& b);
Value matches(const Value& a, const Value& b);
Value precedes(const Value& a, const Value& b);  // integers: a < b
Value mix(const Value& a, const Value& b);       // a random integer for this pair of integers
Value uniform(const Value& a);                   // from an integer
Value select(const Value& condition, const Value& then, const Value& otherwise);
Value exp(const Value& a);
Value expm1(const Value& a);
Value log(const Value& a);
Value log1p(const Value& a);
Value sqrt(const Value& a);
Value tanh(const Value& a);
Value erf(const Value& a);

// The instructions of these results, equal ones once. A lone operand(0) becomes a formula without code. InternalError: too long.
Formula formula(const std::vector<Value>& results);
// The first operand, rounded to the result's dtype; unlike a formula without code, which copies any bits.
Formula converted();
// The formula's results with its operands (and nothing else) replaced.
std::vector<Value> apply(const Formula& formula, const std::function<Value(int)>& operand);
// (+0 + a) + b, as a map adds its summands.
Value sum_in_order(const Value& a, const Value& b);
// What a map with two summands computes: operand(0) + operand(1) in place of operand 0, the other operands numbered one higher.
Formula with_sum(Formula formula);
// The same values with fewer instructions, if code made from two formulas has more than it needs: what one of them clamps the other
// compares with the same limits again (`relu6(z) <= 0` is `z <= 0`).
Formula simplified(const Formula& formula);
// d result / d operand(number), by the chain rule. Of a select: the derivative of the chosen value.
Value derivative(const Value& result, int number);

// Whether it takes much longer than arithmetic.
inline bool is_function(Opcode op) {
  return op >= Opcode::exp && op < Opcode::whole;
}
// Whether f32 maps of only such instructions run as loops on CPUs even if no op declares them (kernels/loops/assemble.h).
inline bool is_assembled(Opcode op) {
  return op != Opcode::position && (!is_function(op) || op == Opcode::sqrt);
}
bool is_assembled(const Formula& formula);
// Whether a, b and c of such an instruction are registers.
inline bool reads_registers(Opcode op) {
  return op >= Opcode::add && op != Opcode::whole;
}
// A formula without its constants: compiled once for all constants.
struct FormulaShape {
  std::uint64_t hash = 0;
  std::vector<double> constants{};  // in the order of the code
};
FormulaShape shape_of(const Formula& formula);

}  // namespace motley
