// SPDX-License-Identifier: Apache-2.0
// A comparison of a register that is z or one of a few constants, depending only on comparisons of z, may be equivalent to that
// comparison of z itself. This is tested: at each constant, beside it, at both infinities and for a NaN. Between two constants
// nothing changes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "base/at.h"
#include "kernels/value.h"

namespace motley {
namespace {

bool is_comparison(Opcode op) {
  return op == Opcode::less || op == Opcode::less_equal || op == Opcode::equal;
}

// The single register, besides constants, from which this choice chooses and which its comparisons read; -1: there are several.
int chosen_from(const Formula& f, int choice) {
  std::set<int> todo{choice}, others;
  while (!todo.empty()) {  // operands come first, so each is seen once
    const int r = *todo.rbegin();
    todo.erase(r);
    const Instruction& s = at(f.code, r);
    if (s.op == Opcode::select || is_comparison(s.op)) {
      for (const int of : {s.a, s.b, s.c})
        if (of >= 0) todo.insert(of);
    } else if (s.op != Opcode::constant) {
      others.insert(r);
    }
  }
  return others.size() == 1 ? *others.begin() : -1;
}

// Values of the registers up to `last` that follow from the value of register z; conditions are 0 or 1.
template <class Real>
std::vector<std::optional<Real>> values_at(const Formula& f, int last, int z, Real value) {
  std::vector<std::optional<Real>> of;
  for (int i = 0; i <= last; i++) {
    const Instruction& s = at(f.code, i);
    std::optional<Real> here;
    if (i == z) {
      here = value;
    } else if (s.op == Opcode::constant) {
      here = static_cast<Real>(s.value);
    } else if (is_comparison(s.op)) {
      if (const auto a = at(of, s.a), b = at(of, s.b); a && b)
        here = (s.op == Opcode::less ? *a < *b : s.op == Opcode::less_equal ? *a <= *b : *a == *b) ? 1 : 0;
    } else if (s.op == Opcode::select && at(of, s.a)) {
      here = at(of, *at(of, s.a) != 0 ? s.b : s.c);
    }
    of.push_back(here);
  }
  return of;
}

// Whether the instruction is the same comparison with z in the place of one of its operands (`replaced`), for all z.
template <class Real>
bool is_of(const Formula& f, int comparison, int z, const Instruction& replaced) {
  constexpr Real kInfinity = std::numeric_limits<Real>::infinity();
  std::set<Real> all{-kInfinity, kInfinity};
  for (int i = 0; i < comparison; i++)
    if (const Instruction& s = at(f.code, i); s.op == Opcode::constant && !std::isnan(s.value)) {
      const auto c = static_cast<Real>(s.value);
      all.insert({std::nextafter(c, -kInfinity), c, std::nextafter(c, kInfinity)});
    }
  std::vector<Real> tried(all.begin(), all.end());
  tried.push_back(std::numeric_limits<Real>::quiet_NaN());
  Formula other = f;
  at(other.code, comparison) = replaced;
  return std::all_of(tried.begin(), tried.end(), [&](Real value) {
    const auto one = values_at(f, comparison, z, value).back();
    return one && one == values_at(other, comparison, z, value).back();
  });
}

// The instructions that a result needs, each once.
Formula without_unread(const Formula& f) {
  std::vector<bool> read(f.code.size(), false);
  for (const int r : f.results) at(read, r) = true;
  for (int i = static_cast<int>(f.code.size()) - 1; i >= 0; i--) {
    const Instruction& s = at(f.code, i);
    if (at(read, i) && reads_registers(s.op))
      for (const int r : {s.a, s.b, s.c})
        if (r >= 0) at(read, r) = true;
  }
  Formula out;
  std::vector<int> moved;
  for (std::size_t i = 0; i < f.code.size(); i++) {
    Instruction s = f.code[i];
    if (!read[i]) {
      moved.push_back(-1);
      continue;
    }
    if (reads_registers(s.op))
      for (int* r : {&s.a, &s.b, &s.c})
        if (*r >= 0) *r = at(moved, *r);
    const auto same = std::find(out.code.begin(), out.code.end(), s);
    moved.push_back(static_cast<int>(same - out.code.begin()));
    if (same == out.code.end()) out.code.push_back(s);
  }
  for (const int r : f.results) out.results.push_back(at(moved, r));
  return out;
}

}  // namespace

Formula simplified(const Formula& formula) {
  Formula f = formula;
  for (std::size_t i = 0; i < f.code.size(); i++) {
    if (!is_comparison(f.code[i].op)) continue;
    for (int Instruction::*side : {&Instruction::a, &Instruction::b}) {
      Instruction s = f.code[i];
      if (at(f.code, s.*side).op != Opcode::select) continue;
      const int z = chosen_from(f, s.*side);
      s.*side = z;
      if (z >= 0 && is_of<float>(f, static_cast<int>(i), z, s) && is_of<double>(f, static_cast<int>(i), z, s)) f.code[i] = s;
    }
  }
  return f == formula ? formula : without_unread(f);
}

}  // namespace motley
