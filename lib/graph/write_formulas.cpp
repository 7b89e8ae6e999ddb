// SPDX-License-Identifier: Apache-2.0
// Runs while motley is built: writes the formulas that ops declare as C++ loops, which kernels/loops compiles once per ISA.
#include <cstdio>
#include <set>
#include <string>
#include <tuple>

#include "graph/compiled.h"

namespace motley {
namespace {

std::string text(int i) {
  return std::to_string(i);
}

// The register's type and value, of registers r0, r1, ..., operands t0, ..., constants c0, ...
std::string line_of(const CompiledFormula& one, int i, int& constants, const std::string& real) {
  const Formula& f = one.formula;
  const Instruction& s = f.code[static_cast<std::size_t>(i)];
  const std::string a = "r" + text(s.a), b = "r" + text(s.b), c = "r" + text(s.c);
  const auto define = [&](const std::string& type, const std::string& value) {
    return "    const " + type + " r" + text(i) + " = " + value + ";\n";
  };
  const auto element = [&] { return "t" + text(s.a) + ((one.still >> s.a & 1) != 0 ? "" : "[i]"); };
  switch (s.op) {
    case Opcode::operand: return define(real, element());
    case Opcode::integer: return define("std::int32_t", element());
    case Opcode::scalar: return define(real, "s" + text(s.a));
    case Opcode::constant: return define(real, "c" + text(constants++));
    case Opcode::position: return define("std::int32_t", "p" + text(s.a) + " + static_cast<std::int32_t>(i) * d" + text(s.a));
    case Opcode::add: return define(real, a + " + " + b);
    case Opcode::sub: return define(real, a + " - " + b);
    case Opcode::mul: return define(real, a + " * " + b);
    case Opcode::div: return define(real, a + " / " + b);
    case Opcode::less:
    case Opcode::precedes: return define("bool", a + " < " + b);
    case Opcode::less_equal: return define("bool", a + " <= " + b);
    case Opcode::equal:
    case Opcode::matches: return define("bool", a + " == " + b);
    case Opcode::select: return define(real, a + " ? " + b + " : " + c);
    case Opcode::exp: return define(real, "exp_of(" + a + ")");
    case Opcode::expm1: return define(real, "expm1_of(" + a + ")");
    case Opcode::log: return define(real, "log_of(" + a + ")");
    case Opcode::log1p: return define(real, "log1p_of(" + a + ")");
    case Opcode::sqrt: return define(real, "sqrt_of(" + a + ")");
    case Opcode::tanh: return define(real, "tanh_of(" + a + ")");
    case Opcode::erf: return define(real, "erf_of(" + a + ")");
    case Opcode::mix: return define("std::int32_t", "mixed(" + a + ", " + b + ")");
    case Opcode::uniform: return define(real, "uniform_of<" + real + ">(" + a + ")");
    case Opcode::whole: return define("std::int32_t", "c" + text(constants++));
  }
  return "";
}

void write_loop(const CompiledFormula& one, int number) {
  const Formula& f = one.formula;
  const std::string real = one.width == Width::f64 ? "double" : "float";
  std::printf("// %s\nvoid formula_%d(const Strip& strip, Index n) {\n", to_text(f).c_str(), number);
  std::set<std::string> declared;
  int constants = 0;
  std::string body;
  for (std::size_t i = 0; i < f.code.size(); i++) {
    const Instruction& s = f.code[i];
    std::string line;
    const std::string a = text(s.a);
    if (s.op == Opcode::operand || s.op == Opcode::integer) {
      const std::string type = s.op == Opcode::integer ? "std::int32_t" : real, from = "in<" + type + ">(strip, " + a + ")";
      const bool still = (one.still >> s.a & 1) != 0;
      line = "  const " + type + (still ? " t" + a + " = *" : "* t" + a + " = ") + from + ";\n";
    }
    if (s.op == Opcode::scalar)
      line = "  const " + real + " s" + a + " = static_cast<" + real + ">(*in<double>(strip, " + a + "));\n";
    if (s.op == Opcode::position)
      line = "  const std::int32_t p" + a + " = strip.at[" + a + "], d" + a + " = strip.step[" + a + "];\n";
    if (s.op == Opcode::constant || s.op == Opcode::whole) {
      const std::string type = s.op == Opcode::whole ? "std::int32_t" : real;
      line = "  const " + type + " c" + text(constants) + " = static_cast<" + type + ">(static_cast<const " + real +
             "*>(strip.constants)[" + text(constants) + "]);\n";
    }
    if (declared.insert(line).second) std::printf("%s", line.c_str());
    body += line_of(one, static_cast<int>(i), constants, real);
  }
  for (std::size_t k = 0; k < f.results.size(); k++) {
    const std::string at = text(static_cast<int>(k));
    std::printf("  %s* y%s = out<%s>(strip, %s);\n", real.c_str(), at.c_str(), real.c_str(), at.c_str());
    body += "    y" + at + "[i] = r" + text(f.results[k]) + ";\n";
  }
  std::printf("  MOTLEY_VECTOR\n  for (Index i = 0; i < n; i++) {\n%s  }\n}\n\n", body.c_str());
}

}  // namespace
}  // namespace motley

int main() {
  using namespace motley;
  std::printf("// Written by write_formulas.\n");
  std::set<std::tuple<std::uint64_t, bool, std::uint32_t>> seen;
  std::string table;
  for (const CompiledFormula& one : compiled_formulas()) {
    const bool wide = one.width == Width::f64;
    const std::uint64_t shape = shape_of(one.formula).hash;
    if (one.formula.code.empty() || !seen.insert({shape, wide, one.still}).second) continue;
    const int number = static_cast<int>(seen.size()) - 1;
    write_loop(one, number);
    table += "    {" + std::to_string(shape) + "u, " + (wide ? "true, " : "false, ") + std::to_string(one.still) + "u, formula_" +
             text(number) + "},\n";
  }
  std::printf("constexpr Compiled kCompiled[] = {\n%s};\n", table.c_str());
}
