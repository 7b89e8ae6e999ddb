// SPDX-License-Identifier: Apache-2.0
// Runs while motley is built: writes the formulas that ops declare as C++ loops, which kernels/loops compiles once per ISA.
#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "graph/compiled.h"

namespace motley {
namespace {

std::string text(int i) {
  return std::to_string(i);
}

std::string real_of(const CompiledFormula& one) {
  return one.width == Width::f64 ? "double" : "float";
}

// The name of a variable for one of several rows that are processed side by side.
std::string of_row(const std::string& name, int row) {
  return row == 0 ? name : name + "_" + text(row);
}
std::string element_of(const std::string& pointer, int row, const std::string& step) {
  return pointer + (row == 0 ? "[i]" : "[i + " + text(row) + " * " + step + "]");
}

// The declaration of register i: its type and its value, from registers r0, r1, ..., operands t0, ..., constants c0, ... row: which
// row's elements it reads, counted from the row that the pointers are at.
std::string line_of(const CompiledFormula& one, int i, int& constants, const std::string& real, int row) {
  const Formula& f = one.formula;
  const Instruction& s = f.code[static_cast<std::size_t>(i)];
  const std::string a = of_row("r" + text(s.a), row), b = of_row("r" + text(s.b), row), c = of_row("r" + text(s.c), row);
  const auto define = [&](const std::string& type, const std::string& value) {
    return "    const " + type + " " + of_row("r" + text(i), row) + " = " + value + ";\n";
  };
  const auto element = [&] {
    const std::string k = text(s.a);
    if ((one.still >> s.a & 1) != 0) return of_row("t" + k, row);
    return (one.fixed >> s.a & 1) != 0 ? "t" + k : element_of("t" + k, row, "step[" + k + "]");
  };
  switch (s.op) {
    case Opcode::operand: return define(real, "static_cast<" + real + ">(" + element() + ")");
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

// Which registers have one value in a row. Left in the loop, a function of only these would keep the compiler from vectorizing.
std::vector<bool> still_registers(const CompiledFormula& one) {
  std::vector<bool> out;
  for (const Instruction& s : one.formula.code) {
    bool still = s.op != Opcode::position;
    if (s.op == Opcode::operand || s.op == Opcode::integer) still = (one.still >> s.a & 1) != 0;
    if (reads_registers(s.op))
      for (const int r : {s.a, s.b, s.c}) still = still && (r < 0 || out[static_cast<std::size_t>(r)]);
    out.push_back(still);
  }
  return out;
}

// A formula's loop in parts: what is computed before all elements, and what is computed for one element.
struct Loop {
  std::string before{};  // constants and scalars
  std::string begin{};   // where operands begin
  std::string values{};  // for a row: operands that have one value, and what is computed from these and from constants alone
  std::string fixed{};   // element i of operands that are the same in each row
  std::string next{};    // from one row to the next
  std::string body{};    // registers r0, r1, ... of element i
};

Loop loop_of(const CompiledFormula& one, int row = 0) {
  const Formula& f = one.formula;
  const std::string real = real_of(one);
  Loop loop;
  const std::vector<bool> still_register = still_registers(one);
  std::set<std::string> declared;
  int constants = 0;
  const auto declare = [&](std::string& where, const std::string& line) {
    if (declared.insert(line).second) where += line;
  };
  for (std::size_t i = 0; i < f.code.size(); i++) {
    const Instruction& s = f.code[i];
    const std::string a = text(s.a);
    if (s.op == Opcode::operand || s.op == Opcode::integer) {
      const std::string type = s.op == Opcode::integer                       ? "std::int32_t"
                               : one.wide != 0 && (one.wide >> s.a & 1) == 0 ? "float"
                                                                             : real;
      const std::string from = "in<" + type + ">(strip, " + a + ")";
      const bool still = (one.still >> s.a & 1) != 0, fixed = (one.fixed >> s.a & 1) != 0;
      const std::string pointer = (still || fixed ? "v" : "t") + a;
      declare(loop.begin, "  const " + type + "* " + pointer + " = " + from + ";\n");
      declare(loop.next, "    " + pointer + " += step[" + a + "];\n");
      if (still)
        declare(loop.values,
                "    const " + type + " " + of_row("t" + a, row) + " = v" + a + "[" + text(row) + " * step[" + a + "]];\n");
      if (fixed) declare(loop.fixed, "    const " + type + " t" + a + " = v" + a + "[i];\n");
    }
    if (s.op == Opcode::scalar)
      declare(loop.before, "  const " + real + " s" + a + " = static_cast<" + real + ">(*in<double>(strip, " + a + "));\n");
    if (s.op == Opcode::position)
      declare(loop.before, "  const std::int32_t p" + a + " = strip.at[" + a + "], d" + a + " = strip.step[" + a + "];\n");
    if (s.op == Opcode::constant || s.op == Opcode::whole) {
      const std::string type = s.op == Opcode::whole ? "std::int32_t" : real;
      loop.before += "  const " + type + " c" + text(constants) + " = static_cast<" + type + ">(static_cast<const " + real +
                     "*>(strip.constants)[" + text(constants) + "]);\n";
    }
    (still_register[i] ? loop.values : loop.body) += line_of(one, static_cast<int>(i), constants, real, row);
  }
  return loop;
}

// The part of the loop for several rows side by side: what is declared once for each row.
struct Rows {
  std::string values{}, body{}, next{};  // as Loop's
};
// store(row): code that uses a row's registers.
template <class Store>
Rows rows_of(const CompiledFormula& one, int rows, Store&& store) {
  Rows out;
  for (int row = 0; row < rows; row++) {
    const Loop loop = loop_of(one, row);
    out.values += loop.values;
    if (row == 0) out.body += loop.fixed;
    out.body += loop.body + store(row);
    out.next += loop.next;
  }
  return out;
}
// Prefetch of operands that are read `rows` rows side by side: in memory order, m elements of each row at a time.
struct Ahead {
  std::string begin{}, fetch{};
};
Ahead ahead_of(const CompiledFormula& one, int rows) {
  Ahead out;
  const Loop loop = loop_of(one);
  std::vector<std::string> walked;
  for (int k = 0; k < operand_count(one.formula) && rows > 1; k++)
    if ((one.wide >> k & 1) == 0 && loop.begin.find(" t" + text(k) + " = ") != std::string::npos) walked.push_back(text(k));
  for (const std::string& k : walked) {
    out.begin += "    RowsAhead ahead" + k + "(t" + k + ", step[" + k + "], n, " + text(rows) + ", " +
                 text(static_cast<int>(walked.size())) + ");\n";
    out.fetch += "      ahead" + k + ".fetch(" + text(rows) + " * m);\n";
  }
  return out;
}
// The loop over elements, as a function to be called in parts.
std::string part_of(const std::string& name, const std::string& body, const std::string& ahead = "") {
  return "    const auto " + name + " = [&](Index first, Index m) MOTLEY_INLINE {\n" + ahead +
         "      MOTLEY_VECTOR\n      for (Index i = first; i < first + m; i++) {\n" + body + "      }\n    };\n";
}

// The loop over the elements of rows. The number of rows and the steps are copied to registers: as far as the compiler knows, a
// result might overwrite them in memory. Operands that are the same in each row are read once for several rows.
void write_loop(const CompiledFormula& one, const std::string& name) {
  const std::string real = real_of(one), results = text(static_cast<int>(one.formula.results.size()));
  std::string begin = loop_of(one).begin, next;
  for (std::size_t k = 0; k < one.formula.results.size(); k++) {
    const std::string at = text(static_cast<int>(k));
    begin += "  " + real + "* y" + at + " = out<" + real + ">(strip, " + at + ");\n";
    next += "    y" + at + " += out_step[" + at + "];\n";
  }
  std::printf(
      "// %s\nvoid %s(const Strip& strip, Index n) {\n%s%s  const Index rows = strip.rows;\n"
      "  Index step[%d] = {}, out_step[%s] = {};\n"
      "  if (rows > 1) std::memcpy(step, strip.in_steps, sizeof step), std::memcpy(out_step, strip.out_steps, sizeof out_step);\n"
      "  Index row = 0;\n",
      to_text(one.formula).c_str(), name.c_str(), loop_of(one).before.c_str(), begin.c_str(),
      std::max(1, operand_count(one.formula)), results.c_str());
  const auto walked = [&](int rows) {
    Rows out = rows_of(one, rows, [&](int row) {
      std::string stores;
      for (std::size_t k = 0; k < one.formula.results.size(); k++) {
        const std::string at = text(static_cast<int>(k));
        stores += "    " + element_of("y" + at, row, "out_step[" + at + "]") + " = " +
                  of_row("r" + text(one.formula.results[k]), row) + ";\n";
      }
      return stores;
    });
    for (int row = 0; row < rows; row++) out.next += next;
    return out;
  };
  if (one.fixed != 0) {
    constexpr int kRows = 4;
    const Rows four = walked(kRows);
    std::printf("  for (; row + %d <= rows; row += %d) {\n%s%s    for_columns(n, walk);\n%s  }\n  if (row == rows) return;\n",
                kRows, kRows, four.values.c_str(), part_of("walk", four.body).c_str(), four.next.c_str());
  }
  const Rows each = walked(1);
  std::printf(
      "  for (;;) {\n%s    MOTLEY_VECTOR\n    for (Index i = 0; i < n; i++) {\n%s    }\n"
      "    if (++row >= rows) return;\n%s  }\n}\n\n",
      each.values.c_str(), each.body.c_str(), each.next.c_str());
}

// Beginning of a function that sums over rows: start of the operands, the number of rows, the steps from one row to the next.
std::string head_of(const CompiledFormula& one, const Loop& loop) {
  return "(const Strip& strip, Index n, double* const* totals) {\n" + loop.before +
         "  const Index rows = strip.rows;\n  Index step[" + text(operand_count(one.formula)) +
         "];\n  std::memcpy(step, strip.in_steps, sizeof step);\n" + loop.begin;
}
// Sums of the elements of each row, in local arrays, which the compiler keeps in vectors.
void write_sums(const CompiledFormula& one, int number) {
  const Loop loop = loop_of(one);
  std::string body = loop.body, zeros, totals, ahead;
  for (int k = 0; k < operand_count(one.formula); k++)
    if (((one.still | one.wide) >> k & 1) == 0 && loop.begin.find(" t" + text(k) + " = ") != std::string::npos)
      ahead += "      if (step[" + text(k) + "] == n) read_ahead(t" + text(k) + " + at, kLanes);\n";
  for (std::size_t k = 0; k < one.formula.results.size(); k++) {
    const std::string at = text(static_cast<int>(k)), sums = "sums" + at;
    body += "        " + sums + "[i - first] += static_cast<double>(r" + text(one.formula.results[k]) + ");\n";
    zeros += "    alignas(64) double " + sums + "[kLanes];\n    clear(" + sums + ");\n";
    totals += "    totals[" + at + "][row] = total_of(" + sums + ");\n";
  }
  std::printf(
      "// sums of %s\nvoid sums_%d%s  for (Index row = 0;;) {\n%s%s%s"
      "    Index at = 0;\n    for (; at + kLanes <= n; at += kLanes) {\n%s      add(at, kLanes);\n    }\n    add(at, n - at);\n%s"
      "    if (++row >= rows) return;\n%s  }\n}\n",
      to_text(one.formula).c_str(), number, head_of(one, loop).c_str(), loop.values.c_str(), zeros.c_str(),
      part_of("add", body).c_str(), ahead.c_str(), totals.c_str(), loop.next.c_str());
}

// Sums of the rows' elements in each column, so many rows at a time, then so many of the rest; in local arrays too. Several rows
// read the sums, and the operands that are the same in each row, once.
void write_columns(const CompiledFormula& one, const std::string& name, const std::vector<int>& rows_at_once) {
  const Loop loop = loop_of(one);
  std::string load = "  const auto bytes = static_cast<std::size_t>(n) * sizeof(double);\n", store, begin, end;
  for (std::size_t k = 0; k < one.formula.results.size(); k++) {
    const std::string at = text(static_cast<int>(k)), sums = "sums" + at;
    load += "  alignas(64) double " + sums + "[kChunk];\n  std::memcpy(" + sums + ", totals[" + at + "], bytes);\n";
    store += "  std::memcpy(totals[" + at + "], " + sums + ", bytes);\n";
    begin += "        double sum" + at + " = " + sums + "[i];\n";
    end += "        " + sums + "[i] = sum" + at + ";\n";
  }
  std::printf("void %s%s%s  Index row = 0;\n", name.c_str(), head_of(one, loop).c_str(), load.c_str());
  for (const int rows : rows_at_once) {
    const Rows side = rows_of(one, rows, [&](int row) {
      std::string adds;
      for (std::size_t k = 0; k < one.formula.results.size(); k++) {
        const std::string sum = "sum" + text(static_cast<int>(k)), value = of_row("r" + text(one.formula.results[k]), row);
        adds += "        " + sum + " = sum_of(" + sum + ", static_cast<double>(" + value + "));\n";
      }
      return adds;
    });
    const Ahead ahead = ahead_of(one, rows);
    std::printf("  for (; row + %d <= rows; row += %d) {\n%s%s%s    for_columns(n, add);\n%s  }\n", rows, rows, side.values.c_str(),
                ahead.begin.c_str(), part_of("add", begin + side.body + end, ahead.fetch).c_str(), side.next.c_str());
  }
  std::printf("%s}\n\n", store.c_str());
}

}  // namespace
}  // namespace motley

int main() {
  using namespace motley;
  std::printf("// Written by write_formulas.\n");
  std::set<std::tuple<std::uint64_t, bool, std::uint32_t, std::uint32_t>> seen;
  std::set<std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>> summed;
  const std::vector<int> rows_at_once{4, 1}, single{1};
  std::string table, sums;
  for (const CompiledFormula& one : compiled_formulas()) {
    const bool wide = one.width == Width::f64;
    const std::uint64_t shape = shape_of(one.formula).hash;
    const std::string key = "    {" + std::to_string(shape) + "u, ";
    if (one.formula.code.empty()) continue;
    CompiledFormula any = one;  // a loop for operands of any kind from row to row
    any.fixed = 0;
    if (one.summed && summed.insert({shape, one.wide, one.still}).second) {
      const int number = static_cast<int>(summed.size()) - 1;
      write_sums(any, number);
      write_columns(any, "columns_" + text(number), one.fixed != 0 ? single : rows_at_once);
      sums += key + std::to_string(one.wide) + "u, " + std::to_string(one.still) + "u, {sums_" + text(number) + ", columns_" +
              text(number);
      if (one.fixed != 0) {
        write_columns(one, "fixed_" + text(number), rows_at_once);
        sums += ", " + std::to_string(one.fixed) + "u, fixed_" + text(number);
      }
      sums += "}},\n";
    }
    if (wide) any.still = any.wide = 0;  // its operands are first copied to f64
    for (const std::uint32_t fixed : {std::uint32_t{0}, wide ? 0 : one.fixed}) {
      any.fixed = fixed;
      if (!seen.insert({shape, wide, any.still, fixed}).second) continue;
      const std::string name = "formula_" + text(static_cast<int>(seen.size()) - 1);
      write_loop(any, name);
      table +=
          key + (wide ? "true, " : "false, ") + std::to_string(any.still) + "u, " + std::to_string(fixed) + "u, " + name + "},\n";
    }
  }
  std::printf("constexpr Compiled kCompiled[] = {\n%s};\nconstexpr CompiledSums kCompiledSums[] = {\n%s};\n", table.c_str(),
              sums.c_str());
}
