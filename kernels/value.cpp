// SPDX-License-Identifier: Apache-2.0
#include "kernels/value.h"

#include <motley/error.h>

#include <algorithm>
#include <map>

namespace motley {
namespace {

Value made(Opcode op, std::vector<Value> of) {
  return Value(Value::Term{op, -1, 0, std::move(of)});
}

Value numbered(Opcode op, int number) {
  return Value(Value::Term{op, number, 0, {}});
}

bool is(const Value& v, double constant) {
  return v.term().op == Opcode::constant && v.term().constant == constant;
}

// Terms -> instructions, each once.
class Recorder {
 public:
  int add(const Value& v) {
    const Value::Term* term = &v.term();
    if (const auto known = known_.find(term); known != known_.end()) return known->second;
    Instruction s{term->op, -1, -1, -1, term->constant};
    if (term->of.empty()) s.a = term->number;
    // The chosen values come before the condition, so that a gradient is the first operand of a formula and of those that it is
    // joined to.
    const std::size_t count = term->of.size(), first = term->op == Opcode::select ? 1 : 0;
    for (std::size_t n = 0; n < count; n++) {
      const std::size_t k = (first + n) % count;
      (k == 0 ? s.a : k == 1 ? s.b : s.c) = add(term->of[k]);
    }
    const auto same = std::find(formula.code.begin(), formula.code.end(), s);
    const int place = static_cast<int>(same - formula.code.begin());
    if (same == formula.code.end()) formula.code.push_back(s);
    known_.emplace(term, place);
    return place;
  }
  Formula formula{};

 private:
  std::map<const Value::Term*, int> known_{};
};

using Memo = std::map<const Value::Term*, Value>;

Value derived(const Value& v, int number, Memo& memo);

// d op(a, b, c), given da, db, dc
Value chain(const Value& v, int number, Memo& memo) {
  const Value::Term& t = v.term();
  const auto of = [&](std::size_t k) -> const Value& { return t.of[k]; };
  const auto d = [&](std::size_t k) { return derived(t.of[k], number, memo); };
  switch (t.op) {
    case Opcode::operand:
    case Opcode::scalar: return t.number == number ? 1.0 : 0.0;
    case Opcode::add: return d(0) + d(1);
    case Opcode::sub: return d(0) - d(1);
    case Opcode::mul: return d(0) * of(1) + of(0) * d(1);
    case Opcode::div: return (d(0) - v * d(1)) / of(1);
    case Opcode::select: return select(of(0), d(1), d(2));
    case Opcode::exp: return v * d(0);
    case Opcode::expm1: return (v + 1.0) * d(0);
    case Opcode::log: return d(0) / of(0);
    case Opcode::log1p: return d(0) / (1.0 + of(0));
    case Opcode::sqrt: return d(0) / (2.0 * v);
    case Opcode::tanh: return (1.0 - v * v) * d(0);
    case Opcode::erf: return 1.12837916709551257390 * exp(-(of(0) * of(0))) * d(0);  // 2 / sqrt(pi)
    default: return 0.0;
  }
}

Value derived(const Value& v, int number, Memo& memo) {
  if (const auto known = memo.find(&v.term()); known != memo.end()) return known->second;
  Value out = chain(v, number, memo);
  memo.emplace(&v.term(), out);
  return out;
}

}  // namespace

Value::Value(double constant) : term_(std::make_shared<Term>(Term{Opcode::constant, -1, constant, {}})) {}
Value::Value(Term term) : term_(std::make_shared<Term>(std::move(term))) {}

Value operand(int number) {
  return numbered(Opcode::operand, number);
}
Value integer(int number) {
  return numbered(Opcode::integer, number);
}
Value whole(int constant) {
  return Value(Value::Term{Opcode::whole, -1, static_cast<double>(constant), {}});
}
Value scalar(int number) {
  return numbered(Opcode::scalar, number);
}
Value position(int extent) {
  return numbered(Opcode::position, extent);
}

// Terms that a derivative makes of constants are left out.
Value operator+(const Value& a, const Value& b) {
  if (is(a, 0)) return b;
  if (is(b, 0)) return a;
  return made(Opcode::add, {a, b});
}
Value operator-(const Value& a, const Value& b) {
  if (is(b, 0)) return a;
  return made(Opcode::sub, {a, b});
}
Value operator*(const Value& a, const Value& b) {
  if (is(a, 0) || is(b, 1)) return a;
  if (is(b, 0) || is(a, 1)) return b;
  return made(Opcode::mul, {a, b});
}
Value operator/(const Value& a, const Value& b) {
  if (is(a, 0) || is(b, 1)) return a;
  return made(Opcode::div, {a, b});
}
Value operator-(const Value& a) {
  if (a.term().op == Opcode::constant) return -a.term().constant;
  return made(Opcode::mul, {-1.0, a});
}
Value operator<(const Value& a, const Value& b) {
  return made(Opcode::less, {a, b});
}
Value operator<=(const Value& a, const Value& b) {
  return made(Opcode::less_equal, {a, b});
}
Value operator==(const Value& a, const Value& b) {
  return made(Opcode::equal, {a, b});
}
Value matches(const Value& a, const Value& b) {
  return made(Opcode::matches, {a, b});
}
Value precedes(const Value& a, const Value& b) {
  return made(Opcode::precedes, {a, b});
}
Value mix(const Value& a, const Value& b) {
  return made(Opcode::mix, {a, b});
}
Value uniform(const Value& a) {
  return made(Opcode::uniform, {a});
}
Value select(const Value& condition, const Value& then, const Value& otherwise) {
  if (then.term().op == Opcode::constant && is(otherwise, then.term().constant)) return then;
  return made(Opcode::select, {condition, then, otherwise});
}
Value exp(const Value& a) {
  return made(Opcode::exp, {a});
}
Value expm1(const Value& a) {
  return made(Opcode::expm1, {a});
}
Value log(const Value& a) {
  return made(Opcode::log, {a});
}
Value log1p(const Value& a) {
  return made(Opcode::log1p, {a});
}
Value sqrt(const Value& a) {
  return made(Opcode::sqrt, {a});
}
Value tanh(const Value& a) {
  return made(Opcode::tanh, {a});
}
Value erf(const Value& a) {
  return made(Opcode::erf, {a});
}

Formula formula(const std::vector<Value>& results) {
  Recorder recorder;
  for (const Value& v : results) recorder.formula.results.push_back(recorder.add(v));
  Formula& f = recorder.formula;
  check(f.code.size() <= static_cast<std::size_t>(kMostInstructions), "a formula has at most 64 instructions");
  if (f.code.size() == 1 && f.results.size() == 1 && f.code[0] == Instruction{Opcode::operand, 0, -1, -1, 0}) return {};
  return f;
}

Formula converted() {
  return {{{Opcode::operand, 0, -1, -1, 0}}, {0}};
}

std::vector<Value> apply(const Formula& f, const std::function<Value(int)>& operand) {
  if (f.code.empty()) return {operand(0)};
  std::vector<Value> registers;
  for (const Instruction& s : f.code) {
    if (s.op == Opcode::operand) {
      registers.push_back(operand(s.a));
    } else if (s.op == Opcode::constant) {
      registers.push_back(s.value);
    } else if (s.op == Opcode::whole) {
      registers.push_back(whole(static_cast<int>(s.value)));
    } else if (s.op == Opcode::integer || s.op == Opcode::scalar || s.op == Opcode::position) {
      registers.push_back(numbered(s.op, s.a));
    } else {
      std::vector<Value> of;
      for (const int r : {s.a, s.b, s.c})
        if (r >= 0) of.push_back(registers[static_cast<std::size_t>(r)]);
      registers.push_back(made(s.op, std::move(of)));
    }
  }
  std::vector<Value> out;
  for (const int r : f.results) out.push_back(registers[static_cast<std::size_t>(r)]);
  return out;
}

Value sum_in_order(const Value& a, const Value& b) {
  return made(Opcode::add, {made(Opcode::add, {0.0, a}), b});
}

Formula with_sum(Formula f) {
  for (Instruction& s : f.code)
    if ((s.op == Opcode::operand || s.op == Opcode::integer || s.op == Opcode::scalar) && s.a > 0) s.a++;
  const Value sum = sum_in_order(operand(0), operand(1));
  return formula(apply(f, [&](int k) { return k == 0 ? sum : operand(k); }));
}

Value derivative(const Value& result, int number) {
  Memo memo;
  return derived(result, number, memo);
}

}  // namespace motley
