// SPDX-License-Identifier: Apache-2.0
#include <motley/error.h>
#include <motley/formula.h>
#include <motley/kernel_spec.h>  // before base/fields.h, whose == would ask whether its types have Fields: Clang asks once in a file

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "base/hash.h"
#include "kernels/evaluate.h"
#include "kernels/kernel_names.h"
#include "kernels/value.h"

namespace motley {
namespace {

enum class Kind : std::uint8_t { real, integer, condition };

struct Signature {
  Kind result = Kind::real;
  std::vector<Kind> of{};  // kinds of the registers that are read
};

Signature signature(Opcode op) {
  using enum Kind;
  switch (op) {
    case Opcode::operand:
    case Opcode::scalar:
    case Opcode::constant: return {real, {}};
    case Opcode::integer:
    case Opcode::position:
    case Opcode::whole: return {integer, {}};
    case Opcode::add:
    case Opcode::sub:
    case Opcode::mul:
    case Opcode::div: return {real, {real, real}};
    case Opcode::less:
    case Opcode::less_equal:
    case Opcode::equal: return {condition, {real, real}};
    case Opcode::matches:
    case Opcode::precedes: return {condition, {integer, integer}};
    case Opcode::select: return {real, {condition, real, real}};
    case Opcode::mix: return {integer, {integer, integer}};
    case Opcode::uniform: return {real, {integer}};
    default: return {real, {real}};
  }
}

bool is_numbered(Opcode op) {
  return op == Opcode::operand || op == Opcode::integer || op == Opcode::scalar || op == Opcode::position;
}

bool is_constant(Opcode op) {
  return op == Opcode::constant || op == Opcode::whole;
}

const Instruction& instruction(const Formula& f, int i) {
  return f.code[static_cast<std::size_t>(i)];
}

// "", or why no kernel can run the formula.
std::string fault_of(const Formula& f) {
  if (f.code.empty()) return f.results.empty() ? "" : "results without code";
  if (f.code.size() > static_cast<std::size_t>(kMostInstructions))
    return std::to_string(f.code.size()) + " instructions; at most " + std::to_string(kMostInstructions) + " are possible";
  std::map<int, Opcode> operands;
  for (std::size_t i = 0; i < f.code.size(); i++) {
    const Instruction& s = f.code[i];
    const std::string here = "instruction " + std::to_string(i) + " (" + name_of(s.op) + ")";
    if (is_numbered(s.op)) {
      if (s.a < 0 || s.a >= kMostOperands) return here + " names number " + std::to_string(s.a);
      if (s.op != Opcode::position && operands.emplace(s.a, s.op).first->second != s.op)
        return here + ": operand " + std::to_string(s.a) + " is read as two kinds";
      continue;
    }
    if (s.op == Opcode::whole && !(std::abs(s.value) <= kMostWhole && s.value == std::round(s.value)))
      return here + " is not an integer between -2^24 and 2^24";
    const Signature its = signature(s.op);
    const std::array<int, 3> read{s.a, s.b, s.c};
    for (std::size_t k = 0; k < its.of.size(); k++) {
      if (read[k] < 0 || read[k] >= static_cast<int>(i)) return here + " reads register " + std::to_string(read[k]);
      if (signature(instruction(f, read[k]).op).result != its.of[k]) return here + " reads a register of another kind";
    }
  }
  if (f.results.empty() || f.results.size() > static_cast<std::size_t>(kMostOperands)) return "1 to 16 results are possible";
  for (const int r : f.results)
    if (r < 0 || r >= static_cast<int>(f.code.size()) || signature(instruction(f, r).op).result != Kind::real)
      return "register " + std::to_string(r) + " is not a result";
  return "";
}

// Writes registers as expressions, with parentheses where a sum is a factor.
std::string expression(const Formula& f, int i) {
  const Instruction& s = instruction(f, i);
  const auto inner = [&](int k) {
    const Opcode op = instruction(f, k).op;
    const std::string text = expression(f, k);
    return op == Opcode::operand || op == Opcode::scalar || is_constant(op) || signature(op).of.size() == 1 ? text
                                                                                                            : "(" + text + ")";
  };
  const auto infix = [&](const char* sign) { return inner(s.a) + sign + inner(s.b); };
  switch (s.op) {
    case Opcode::operand:
    case Opcode::scalar:
    case Opcode::integer: return "t" + std::to_string(s.a);
    case Opcode::constant:
    case Opcode::whole: return (std::ostringstream() << s.value).str();
    case Opcode::position: return "i" + std::to_string(s.a);
    case Opcode::add: return infix(" + ");
    case Opcode::sub: return infix(" - ");
    case Opcode::mul: return infix(" * ");
    case Opcode::div: return infix(" / ");
    case Opcode::less:
    case Opcode::precedes: return infix(" < ");
    case Opcode::less_equal: return infix(" <= ");
    case Opcode::equal:
    case Opcode::matches: return infix(" == ");
    case Opcode::select: return expression(f, s.a) + " ? " + inner(s.b) + " : " + inner(s.c);
    case Opcode::mix: return "mix(" + expression(f, s.a) + ", " + expression(f, s.b) + ")";
    default: return name_of(s.op) + "(" + expression(f, s.a) + ")";
  }
}

}  // namespace

int operand_count(const Formula& f) {
  int count = f.code.empty() ? 1 : 0;
  for (const Instruction& s : f.code)
    if (is_numbered(s.op) && s.op != Opcode::position) count = std::max(count, s.a + 1);
  return count;
}

int result_count(const Formula& f) {
  return std::max(1, static_cast<int>(f.results.size()));
}

int integer_operand(const Formula& f) {
  for (int k = 0; k < operand_count(f); k++)
    if (is_integer_operand(f, k)) return k;
  return -1;
}

bool is_integer_operand(const Formula& f, int operand) {
  return std::any_of(f.code.begin(), f.code.end(), [&](const Instruction& s) { return s.op == Opcode::integer && s.a == operand; });
}

bool is_scalar_operand(const Formula& f, int operand) {
  return std::any_of(f.code.begin(), f.code.end(), [&](const Instruction& s) { return s.op == Opcode::scalar && s.a == operand; });
}

bool reads_position(const Formula& f, int extent) {
  return std::any_of(f.code.begin(), f.code.end(),
                     [&](const Instruction& s) { return s.op == Opcode::position && (extent < 0 || s.a == extent); });
}

std::string summary(const Formula& f) {
  if (f.code.empty()) return "t0";
  if (f.code.size() > 12 || f.results.size() > 1) return std::to_string(f.code.size()) + " instructions";
  return expression(f, f.results.front());
}

std::string to_text(const Formula& f) {
  if (f.code.empty()) return "";
  std::string text;
  for (const Instruction& s : f.code) {
    text += (text.empty() ? "" : "; ") + name_of(s.op);
    if (is_constant(s.op)) {
      std::array<char, 32> digits{};
      const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), s.value);
      text += " " + std::string(digits.data(), end);
      continue;
    }
    for (const int r : {s.a, s.b, s.c})
      if (r >= 0) text += " " + std::to_string(r);
  }
  text += " ->";
  for (const int r : f.results) text += " " + std::to_string(r);
  return text;
}

Formula formula_from(const std::string& text) {
  Formula f;
  if (text.empty()) return f;
  const auto wrong = [&](const std::string& why) { throw UserError("\"" + text + "\" is not a formula: " + why); };
  const std::size_t arrow = text.find("->");
  if (arrow == std::string::npos) wrong("expected \"-> RESULT\" at its end");
  std::istringstream code(text.substr(0, arrow)), results(text.substr(arrow + 2));
  for (std::string one; std::getline(code, one, ';');) {
    std::istringstream words(one);
    std::string name, rest;
    words >> name;
    const auto found = std::find(kOpcodeNames.begin(), kOpcodeNames.end(), name);
    if (found == kOpcodeNames.end()) wrong("unknown instruction \"" + name + "\"");
    Instruction s{static_cast<Opcode>(found - kOpcodeNames.begin()), -1, -1, -1, 0};
    if (is_constant(s.op)) {
      words >> rest;
      if (std::from_chars(rest.data(), rest.data() + rest.size(), s.value).ec != std::errc())
        wrong("\"" + rest + "\" is not a number");
    } else {
      const std::size_t numbers = is_numbered(s.op) ? 1 : signature(s.op).of.size();
      for (std::size_t k = 0; k < numbers; k++)
        if (!(words >> (k == 0 ? s.a : k == 1 ? s.b : s.c))) wrong(name + " needs " + std::to_string(numbers) + " numbers");
    }
    if (words >> rest) wrong("\"" + rest + "\" after " + name);
    f.code.push_back(s);
  }
  for (int r = 0; results >> r;) f.results.push_back(r);
  if (!results.eof()) wrong("its results are not numbers");
  if (const std::string fault = fault_of(f); !fault.empty()) wrong(fault);
  return f;
}

std::vector<double> evaluate(const Formula& f, const std::vector<double>& operands) {
  const PlainFormula plain = plain_of(f);
  Registers<double> registers;
  run(
      plain, registers, [&](int k) { return operands.at(static_cast<std::size_t>(k)); }, [](int) { return 0; },
      [](int) { return 0; });
  std::vector<double> out;
  for (int k = 0; k < plain.result_count; k++) out.push_back(registers.real[plain.results[k]]);
  return out;
}

PlainFormula plain_of(const Formula& f) {
  const std::string fault = fault_of(f);
  if (!fault.empty()) throw InternalError("a formula that no kernel can run: " + fault);
  PlainFormula p;
  if (f.code.empty()) {
    p.count = p.result_count = 1;
    p.code[0] = {Opcode::operand, 0, 0, 0};
    return p;
  }
  p.count = static_cast<int>(f.code.size());
  for (std::size_t i = 0; i < f.code.size(); i++) {
    const Instruction& s = f.code[i];
    p.code[i] = {s.op, static_cast<std::int8_t>(s.a), static_cast<std::int8_t>(s.b), static_cast<std::int8_t>(s.c)};
    p.constants[i] = s.value;
  }
  p.result_count = static_cast<int>(f.results.size());
  for (std::size_t k = 0; k < f.results.size(); k++) p.results[k] = static_cast<std::int8_t>(f.results[k]);
  return p;
}

bool is_assembled(const Formula& f) {
  return std::all_of(f.code.begin(), f.code.end(), [](const Instruction& s) { return is_assembled(s.op); });
}

FormulaShape shape_of(const Formula& f) {
  FormulaShape shape;
  Hash hash;
  for (const Instruction& s : f.code) {
    hash.add(s.op).add(s.a).add(s.b).add(s.c);
    if (is_constant(s.op)) shape.constants.push_back(s.value);
  }
  hash.add(f.results);
  shape.hash = hash.value();
  return shape;
}

}  // namespace motley
