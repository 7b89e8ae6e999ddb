// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "kernels/evaluate.h"
#include "tests/support/formulas.h"

using namespace motley;
using namespace motley::testing;

namespace {

template <class Real>
Real at_z(const Formula& f, double z) {
  Registers<Real> registers;
  run(
      plain_of(f), registers, [&](int k) { return static_cast<Real>(k == 0 ? 7 : z); }, [](int) { return 0; },
      [](int) { return 0; });
  return registers.real[f.results.front()];
}

template <class Real>
bool equal_at(const Formula& a, const Formula& b, double z) {
  const Real one = at_z<Real>(a, z), other = at_z<Real>(b, z);
  return one == other || (std::isnan(one) && std::isnan(other));
}

bool equal_everywhere(const Formula& a, const Formula& b) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<double> tried{-kInfinity, kInfinity, std::numeric_limits<double>::quiet_NaN(), -0.0, 1e-40, -1e-40};
  for (int i = -40; i <= 40; i++)
    for (const double beside : {-1e-7, -1e-12, 0.0, 1e-12, 1e-7}) tried.push_back(i / 4.0 + beside);
  return std::all_of(tried.begin(), tried.end(), [&](double z) { return equal_at<double>(a, b, z) && equal_at<float>(a, b, z); });
}

// The gradient of an activation that is computed again: operand 0 is dy, operand 1 what it is of.
Formula again(const std::string& name) {
  const Pointwise& f = *Pointwise::find(name);
  const Value y = apply(f.forward(), [](int) { return operand(1); })[0];
  return formula(apply(f.backward(), [&](int k) { return k == 0 ? operand(0) : y; }));
}

}  // namespace

TEST_CASE("activations and their gradients are finite for large numbers") {
  for (const std::string& name : Pointwise::names()) {
    if (name == "exp" || name == "log" || name == "square") continue;  // not everywhere finite themselves
    const Pointwise& f = *Pointwise::find(name);
    for (const double x : {-1e12, -1e4, -800.0, -710.0, -100.0, -89.0, -88.0, -87.0, 0.0, 87.0, 89.0, 710.0, 1e4, 1e12}) {
      INFO(name << " at " << x);
      const auto y = at_z<float>(formula(apply(f.forward(), [](int) { return operand(1); })), x);
      CHECK(std::isfinite(y));
      CHECK(std::isfinite(at_z<float>(f.backward(), f.from_y() ? static_cast<double>(y) : x)));
      CHECK(std::isfinite(at_z<double>(f.backward(), f.from_y() ? static_cast<double>(y) : x)));
    }
  }
}

TEST_CASE("simplified: an activation's gradient from its output reads what the activation reads") {
  for (const auto& [name, choices] : {std::pair{"relu", 1}, {"relu6", 2}}) {
    const Formula before = again(name), after = simplified(before);
    INFO(to_text(before) << " | " << to_text(after));
    CHECK(std::count_if(after.code.begin(), after.code.end(), [](const Instruction& s) { return s.op == Opcode::select; }) ==
          choices);
    CHECK(after.code.size() < before.code.size());
    CHECK(equal_everywhere(before, after));
    CHECK(simplified(after) == after);
  }
  const Formula sigmoid = again("sigmoid");  // no choice at all
  CHECK(simplified(sigmoid) == sigmoid);
}

TEST_CASE("simplified: what is not the same for each value stays") {
  const Value z = operand(1), x = operand(0);
  const Value near = 1.0 + 1e-12;                                                      // another number than 1 in f64, not in f32
  for (const Value& condition : {select(z <= 0.0, 0.0, z) <= 0.5,                      // is z <= 0.5
                                 select(z <= 1.0, 1.0, z) < near,                      // in f32 never
                                 select(z <= 0.0, x, z) <= 0.0,                        // of two registers
                                 select(z <= 0.0, 2.0, z) <= 1.0,                      // a value on the other side of 1
                                 select(z <= 0.0, z, select(0.0 < z, z, 0.0)) <= 0.0,  // 0 where z is a NaN
                                 z * 2.0 <= 0.0, select(x <= 0.0, 0.0, z) <= 0.0}) {
    const Formula f = formula({select(condition, 1.0, x)});
    const bool first = f == formula({select(select(z <= 0.0, 0.0, z) <= 0.5, 1.0, x)});
    INFO(to_text(f));
    CHECK((simplified(f) == f) == !first);
    CHECK(equal_everywhere(f, simplified(f)));
  }
}

TEST_CASE("simplified: random choices keep their values") {
  std::mt19937 random(5);
  const auto in = [&](int first, int last) { return first + static_cast<int>(random() % static_cast<unsigned>(last - first + 1)); };
  int changed = 0;
  for (int i = 0; i < 2000; i++) {
    const auto number = [&] { return Value(static_cast<double>(in(-3, 3)) / 2); };
    const auto condition = [&](const Value& a) {
      const Value b = number();
      const int which = in(0, 4);
      return which == 0 ? a < b : which == 1 ? a <= b : which == 2 ? b < a : which == 3 ? b <= a : a == b;
    };
    Value y = operand(1);
    for (int k = in(1, 4); k > 0; k--) {
      const Value other = in(1, 4) == 1 ? operand(1) : number();
      const Value by = condition(in(1, 2) == 1 ? operand(1) : y);
      y = in(1, 2) == 1 ? select(by, other, y) : select(by, y, other);
    }
    const Formula f = formula({select(condition(y), operand(0), in(1, 2) == 1 ? number() : y)}), after = simplified(f);
    INFO(to_text(f) << " | " << to_text(after));
    CHECK(equal_everywhere(f, after));
    CHECK(after.code.size() <= f.code.size());
    changed += after == f ? 0 : 1;
  }
  CHECK(changed > 100);
}
