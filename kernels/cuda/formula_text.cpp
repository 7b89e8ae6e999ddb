// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/formula_text.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

namespace motley::cuda {
namespace {

// Exactly this number, as a hexadecimal literal or by its bits.
std::string number_text(double value, bool wide) {
  if (!wide) value = static_cast<double>(static_cast<float>(value));
  const char* const type = wide ? "(double)" : "(float)";
  if (!std::isfinite(value)) return fmt::format("{}BITS_F64(0x{:016x})", type, std::bit_cast<std::uint64_t>(value));
  return fmt::format("{}{:a}", type, value);
}

std::string call_text(Opcode op, const std::string& a, bool wide) {
  const char* name = "";
  switch (op) {
    case Opcode::exp: name = "exp"; break;
    case Opcode::expm1: name = "expm1"; break;
    case Opcode::log: name = "log"; break;
    case Opcode::log1p: name = "log1p"; break;
    case Opcode::sqrt: name = "sqrt"; break;
    case Opcode::tanh: name = "tanh"; break;
    default: name = "erf"; break;
  }
  return fmt::format("{}{}({})", name, wide ? "" : "f", a);
}

}  // namespace

FormulaText formula_text(const Formula& formula, bool wide, const FormulaReads& reads) {
  FormulaText out;
  const char* const real = wide ? "double" : "float";
  if (formula.code.empty()) {
    out.statements = fmt::format("const {} r0 = ({}){};\n", real, real, reads.operand(0));
    out.results = {"r0"};
    return out;
  }
  for (std::size_t i = 0; i < formula.code.size(); i++) {
    const Instruction& s = formula.code[i];
    const auto reg = [](int number) { return fmt::format("r{}", number); };
    const auto infix = [&](const char* op) { return fmt::format("{} {} {}", reg(s.a), op, reg(s.b)); };
    std::string type = real, value;
    const auto whole = [&](std::string text) {
      type = "int";
      value = std::move(text);
    };
    switch (s.op) {
      case Opcode::operand:
      case Opcode::scalar: value = fmt::format("({}){}", real, reads.operand(s.a)); break;
      case Opcode::integer: whole(reads.integer(s.a)); break;
      case Opcode::position: whole(reads.position(s.a)); break;
      case Opcode::whole: whole(std::to_string(static_cast<std::int32_t>(s.value))); break;
      case Opcode::constant: value = number_text(s.value, wide); break;
      case Opcode::add: value = infix("+"); break;
      case Opcode::sub: value = infix("-"); break;
      case Opcode::mul: value = infix("*"); break;
      case Opcode::div: value = infix("/"); break;
      case Opcode::less:
      case Opcode::precedes: whole(infix("<")); break;
      case Opcode::less_equal: whole(infix("<=")); break;
      case Opcode::equal:
      case Opcode::matches: whole(infix("==")); break;
      case Opcode::select: value = fmt::format("{} ? {} : {}", reg(s.a), reg(s.b), reg(s.c)); break;
      case Opcode::mix: whole(fmt::format("mixed({}, {})", reg(s.a), reg(s.b))); break;
      case Opcode::uniform: value = fmt::format("({})high_bits({}) * ({})0x1p-24", real, reg(s.a), real); break;
      default: value = call_text(s.op, reg(s.a), wide); break;
    }
    out.statements += fmt::format("const {} r{} = {};\n", type, i, value);
  }
  for (const int r : formula.results) out.results.push_back(fmt::format("r{}", r));
  return out;
}

}  // namespace motley::cuda
