// SPDX-License-Identifier: Apache-2.0
#include "kernels/loops/lane_code.h"

#include <bit>
#include <limits>

#include "base/at.h"
#include "kernels/value.h"

namespace motley::cpu {
namespace {

class Builder {
 public:
  explicit Builder(const PlainFormula& f) : f_(f) {}

  LaneCode run() {
    std::vector<int> its;  // of the formula's instructions
    const auto of = [&](int r) { return r < 0 ? -1 : at(its, r); };
    for (int i = 0; i < f_.count; i++) {
      const PlainInstruction s = f_.code[i];
      out_.has_functions = out_.has_functions || is_function_with_steps(s.op);
      switch (s.op) {
        case Opcode::exp: its.push_back(exp(of(s.a))); break;
        case Opcode::expm1: its.push_back(expm1(of(s.a))); break;
        case Opcode::log: its.push_back(log(of(s.a))); break;
        case Opcode::log1p: its.push_back(log1p(of(s.a))); break;
        case Opcode::tanh: its.push_back(tanh(of(s.a))); break;
        case Opcode::erf: its.push_back(erf(of(s.a))); break;
        default: {
          LaneInstruction one{.op = s.op, .a = s.a, .b = s.b, .c = s.c};
          if (reads_registers(s.op)) one.a = of(s.a), one.b = of(s.b), one.c = of(s.c);
          its.push_back(add(one));
        }
      }
    }
    for (int k = 0; k < f_.result_count; k++) out_.results.push_back(of(f_.results[k]));
    return std::move(out_);
  }

  static bool is_function_with_steps(Opcode op) { return is_function(op) && op != Opcode::sqrt && op < Opcode::mix; }

 private:
  // ---- instructions
  int add(const LaneInstruction& one) {
    out_.code.push_back(one);
    return static_cast<int>(out_.code.size()) - 1;
  }
  int number(std::uint32_t bits) { return add({.lane = LaneOp::number, .bits = bits}); }
  int number(float value) { return number(std::bit_cast<std::uint32_t>(value)); }
  int of(Opcode op, int a, int b, int c = -1) { return add({.op = op, .a = a, .b = b, .c = c}); }
  int of(LaneOp lane, int a, int b = -1) { return add({.lane = lane, .a = a, .b = b}); }
  int left(int a, std::uint32_t by) { return add({.lane = LaneOp::left, .a = a, .bits = by}); }
  int right(int a, std::uint32_t by) { return add({.lane = LaneOp::right, .a = a, .bits = by}); }
  int sum(int a, int b) { return of(Opcode::add, a, b); }
  int sum(int a, float b) { return of(Opcode::add, a, number(b)); }
  int difference(int a, int b) { return of(Opcode::sub, a, b); }
  int difference(int a, float b) { return of(Opcode::sub, a, number(b)); }
  int product(int a, int b) { return of(Opcode::mul, a, b); }
  int product(int a, float b) { return of(Opcode::mul, a, number(b)); }
  int quotient(float a, int b) { return of(Opcode::div, number(a), b); }
  int choice(int condition, int yes, int no) { return of(Opcode::select, condition, yes, no); }
  int below(int a, float b) { return of(Opcode::less, a, number(b)); }
  int size_of(int x) { return of(LaneOp::bits_of_both, x, number(0x7fffffffU)); }
  int sign_of(int x) { return of(LaneOp::bits_of_both, x, number(0x80000000U)); }
  int with_sign(int value, int sign) { return of(LaneOp::bits_of_any, size_of(value), sign); }
  // ((first x + c) x + d) ...
  template <class... C>
  int polynomial(int x, int first, C... further) {
    int p = first;
    ((p = sum(product(p, x), further)), ...);
    return p;
  }

  // ---- math.inc
  struct Reduced {
    int n, small, power;
  };
  Reduced reduce(int x) {
    constexpr float kMagic = 12582912.0f;
    const int shifted = sum(product(x, 1.44269504088896341f), kMagic);
    const int n = difference(shifted, kMagic);
    const int r = sum(difference(x, product(n, 0.693359375f)), product(n, 2.12194440e-4f));
    const int p = polynomial(r, number(1.9875691500e-4f), 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f,
                             5.0000001201e-1f);
    const int small = sum(product(p, product(r, r)), r);
    return {n, small, of(LaneOp::minus, shifted, number(std::bit_cast<std::uint32_t>(kMagic)))};
  }
  int power_of_2(int n) { return left(of(LaneOp::plus, n, number(std::uint32_t{127})), 23); }
  int scaled(const Reduced& e) {
    const int half = right(e.power, 1), rest = of(LaneOp::minus, e.power, half);
    return product(product(sum(e.small, 1.0f), power_of_2(half)), power_of_2(rest));
  }
  int clamped(int x) { return of(LaneOp::smaller, number(89.0f), of(LaneOp::greater, number(-104.0f), x)); }

  int exp(int x) { return scaled(reduce(clamped(x))); }
  int expm1(int x) {
    const Reduced e = reduce(clamped(x));
    return choice(of(Opcode::equal, e.n, number(0.0f)), e.small, difference(scaled(e), 1.0f));
  }
  int log(int x) {
    constexpr float kMagic = 12582912.0f, kInfinity = std::numeric_limits<float>::infinity();
    const int tiny = below(x, 1.17549435e-38f), bits = choice(tiny, product(x, 33554432.0f), x);
    const int power = right(of(LaneOp::minus, bits, number(0x3f3504f3U)), 23);
    const int f = difference(of(LaneOp::minus, bits, left(power, 23)), 1.0f), z = product(f, f);
    const int shifted = difference(of(LaneOp::plus, power, number(std::bit_cast<std::uint32_t>(kMagic))), kMagic);
    const int n = choice(tiny, difference(shifted, 25.0f), shifted);
    int p = sum(product(f, 7.0376836292e-2f), -1.1514610310e-1f);
    for (const float c : {1.1676998740e-1f, -1.2420140846e-1f, 1.4249322787e-1f, -1.6668057665e-1f, 2.0000714765e-1f,
                          -2.4999993993e-1f, 3.3333331174e-1f})
      p = sum(product(p, f), c);
    const int small = difference(difference(product(product(p, f), z), product(n, 2.12194440e-4f)), product(z, 0.5f));
    const int value = sum(sum(f, small), product(n, 0.693359375f)), finite = choice(below(x, kInfinity), value, x);
    const int otherwise = choice(of(Opcode::equal, x, number(0.0f)), number(-kInfinity), number(0x7fc00000U));
    return choice(of(Opcode::less, number(0.0f), x), finite, otherwise);
  }
  int log1p(int x) {
    const int whole = sum(x, 1.0f), part = difference(whole, 1.0f);
    const int value = product(log(whole), of(Opcode::div, x, part));
    const int finite = choice(of(Opcode::equal, whole, number(1.0f)), x, value);
    return choice(below(whole, std::numeric_limits<float>::infinity()), finite, whole);
  }
  int tanh(int x) {
    const int size = size_of(x), z = product(x, x);
    int p = sum(product(z, -5.70498872745e-3f), 2.06390887954e-2f);
    for (const float c : {-5.37397155531e-2f, 1.33314422036e-1f, -3.33332819422e-1f}) p = sum(product(p, z), c);
    const int near = sum(product(product(p, z), x), x);
    const int one_less = of(Opcode::sub, number(1.0f), quotient(2.0f, sum(exp(sum(size, size)), 1.0f)));
    const int sign = sign_of(x), far = with_sign(one_less, sign), end = of(LaneOp::bits_of_any, sign, number(1.0f));
    return choice(below(size, 0.625f), near, choice(of(Opcode::less, number(9.1f), size), end, far));
  }
  int erf(int x) {
    const int size = size_of(x), z = product(x, x);
    int far = sum(product(size, -1.72853470e-5f), 3.83197126e-4f);
    far = sum(product(far, z), sum(product(size, -3.88396438e-3f), 2.42546219e-2f));
    for (const float c : {-1.06777877e-1f, -6.34846687e-1f, -1.28717512e-1f}) far = sum(product(far, size), c);
    far = with_sign(of(Opcode::sub, number(1.0f), exp(difference(product(far, size), size))), sign_of(x));
    int near = sum(product(z, -5.96761703e-4f), 4.99119423e-3f);
    for (const float c : {-2.67681349e-2f, 1.12819925e-1f, -3.76125336e-1f, 1.28379166e-1f}) near = sum(product(near, z), c);
    return choice(below(size, 0.921875f), sum(product(near, x), x), far);
  }

  const PlainFormula& f_;
  LaneCode out_{};
};

}  // namespace

bool has_lane_code(Opcode op) {
  return is_assembled(op) || Builder::is_function_with_steps(op);
}

LaneCode lane_code(const PlainFormula& formula) {
  return Builder(formula).run();
}

}  // namespace motley::cpu
