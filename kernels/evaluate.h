// SPDX-License-Identifier: Apache-2.0
// A Formula as plain data, and its evaluation at one position, for devices without a compiled loop for a formula.
#pragma once
#include <motley/formula.h>

#include <cmath>

namespace motley {

struct PlainInstruction {
  Opcode op = Opcode::constant;
  std::int8_t a = 0, b = 0, c = 0;
};

struct PlainFormula {
  int count = 0, result_count = 0;
  PlainInstruction code[kMostInstructions] = {};
  std::int8_t results[kMostOperands] = {};
  double constants[kMostInstructions] = {};
};

// InternalError: no kernel could run the formula.
PlainFormula plain_of(const Formula& formula);

// Opcode::mix, Opcode::uniform. Static: the loops of every ISA have a separate copy.
static inline std::int32_t mixed(std::int32_t a, std::int32_t b) {
  std::uint32_t x = static_cast<std::uint32_t>(a) ^ static_cast<std::uint32_t>(b) * 0x9E3779B1U;
  x = (x ^ x >> 16) * 0x7FEB352DU;
  x = (x ^ x >> 15) * 0x846CA68BU;
  return static_cast<std::int32_t>(x ^ x >> 16);
}
template <class Real>
static inline Real uniform_of(std::int32_t a) {
  return static_cast<Real>(static_cast<std::int32_t>(static_cast<std::uint32_t>(a) >> 8)) * static_cast<Real>(0x1p-24);
}

template <class Real>
struct Registers {
  Real real[kMostInstructions];
  std::int32_t whole[kMostInstructions];  // integers, and conditions as 0 or 1
};

// operand(k) -> Real, integer(k) and position(extent) -> std::int32_t
template <class Real, class Operand, class Integer, class Position>
inline void run(const PlainFormula& f, Registers<Real>& r, Operand&& operand, Integer&& integer, Position&& position) {
  for (int i = 0; i < f.count; i++) {
    const PlainInstruction s = f.code[i];
    Real& to = r.real[i];
    switch (s.op) {
      case Opcode::operand:
      case Opcode::scalar: to = operand(s.a); break;
      case Opcode::integer: r.whole[i] = integer(s.a); break;
      case Opcode::constant: to = static_cast<Real>(f.constants[i]); break;
      case Opcode::position: r.whole[i] = position(s.a); break;
      case Opcode::add: to = r.real[s.a] + r.real[s.b]; break;
      case Opcode::sub: to = r.real[s.a] - r.real[s.b]; break;
      case Opcode::mul: to = r.real[s.a] * r.real[s.b]; break;
      case Opcode::div: to = r.real[s.a] / r.real[s.b]; break;
      case Opcode::less: r.whole[i] = r.real[s.a] < r.real[s.b] ? 1 : 0; break;
      case Opcode::less_equal: r.whole[i] = r.real[s.a] <= r.real[s.b] ? 1 : 0; break;
      case Opcode::equal: r.whole[i] = r.real[s.a] == r.real[s.b] ? 1 : 0; break;
      case Opcode::matches: r.whole[i] = r.whole[s.a] == r.whole[s.b] ? 1 : 0; break;
      case Opcode::precedes: r.whole[i] = r.whole[s.a] < r.whole[s.b] ? 1 : 0; break;
      case Opcode::select: to = r.whole[s.a] != 0 ? r.real[s.b] : r.real[s.c]; break;
      case Opcode::exp: to = std::exp(r.real[s.a]); break;
      case Opcode::expm1: to = std::expm1(r.real[s.a]); break;
      case Opcode::log: to = std::log(r.real[s.a]); break;
      case Opcode::log1p: to = std::log1p(r.real[s.a]); break;
      case Opcode::sqrt: to = std::sqrt(r.real[s.a]); break;
      case Opcode::tanh: to = std::tanh(r.real[s.a]); break;
      case Opcode::erf: to = std::erf(r.real[s.a]); break;
      case Opcode::mix: r.whole[i] = mixed(r.whole[s.a], r.whole[s.b]); break;
      case Opcode::uniform: to = uniform_of<Real>(r.whole[s.a]); break;
      case Opcode::whole: r.whole[i] = static_cast<std::int32_t>(f.constants[i]); break;
    }
  }
}

// The formula of one real operand.
template <class Real>
inline Real apply(const PlainFormula& f, Real x) {
  Registers<Real> registers;
  run(
      f, registers, [x](int) { return x; }, [](int) { return 0; }, [](int) { return 0; });
  return registers.real[f.results[0]];
}

}  // namespace motley
