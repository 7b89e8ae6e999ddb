// SPDX-License-Identifier: Apache-2.0
// A map's formula as text: what it computes, its gradients, and what is refused.
#include "graph/map_formula.h"

#include <motley/error.h>
#include <motley/ops.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "kernels/evaluate.h"
#include "tests/support/formulas.h"

using namespace motley;
using namespace motley::testing;

namespace {

using Numbers = std::vector<double>;

double value_of(const std::string& text, const Numbers& at) {
  return evaluate(parse_map(text, at.size()).value, at).front();
}

// d text / d t(number), times dy.
template <class Real = double>
double gradient_of(const std::string& text, const Numbers& at, int number, double dy = 1) {
  const MapFormula f = parse_map(text, at.size());
  const MapGradient& g = f.gradients.at(static_cast<std::size_t>(number));
  if (g.zero) return 0;
  Numbers operands;
  if (!g.apart) operands.push_back(dy);
  for (const int k : g.reads) operands.push_back(at.at(static_cast<std::size_t>(k)));
  if (g.formula.code.empty()) return operands.front();
  Registers<Real> registers;
  run(
      plain_of(g.formula), registers, [&](int k) { return static_cast<Real>(operands.at(static_cast<std::size_t>(k))); },
      [](int) { return 0; }, [](int) { return 0; });
  const auto out = static_cast<double>(registers.real[g.formula.results.front()]);
  return g.apart ? out * dy : out;
}

std::string refused(const std::string& text, std::size_t operands = 1) {
  try {
    static_cast<void>(parse_map(text, operands));
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int k = 0; k < times; k++) out += text;
  return out;
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("a map's formula: values") {
  const auto gives = [](const std::string& text, const Numbers& at, double expected) {
    INFO(text);
    CHECK(value_of(text, at) == Approx(expected).epsilon(1e-14).margin(1e-300));
  };
  gives("t0", {3}, 3);
  gives(" t0 ", {3}, 3);
  gives("1 + 2 * t0 - 3 / t0", {2}, 3.5);
  gives("2 - t0 - 3", {1}, -2);
  gives("12 / t0 / 2", {3}, 2);
  gives("-t0 * t0", {3}, -9);
  gives("--t0", {3}, 3);
  gives("2 * -t0", {3}, -6);
  gives("(1 + t0) * (t1 - 2)", {2, 5}, 9);
  gives(".5 * t0 + 1e1 - 2.5E-1", {1}, 10.25);
  gives("t0 * tanh(log1p(exp(t0)))", {0.7}, 0.7 * std::tanh(std::log1p(std::exp(0.7))));
  gives("exp(t0) + expm1(t0) + log(t0) + log1p(t0) + sqrt(t0) + tanh(t0) + erf(t0)", {0.3},
        std::exp(0.3) + std::expm1(0.3) + std::log(0.3) + std::log1p(0.3) + std::sqrt(0.3) + std::tanh(0.3) + std::erf(0.3));
  gives("max(t0, t1) - 2 * min(t0, t1)", {1, 4}, 2);
  gives("max(t0, 0) + min(2, t0)", {5}, 7);
  gives("abs(t0)", {-2.5}, 2.5);
  gives("abs(t0)", {-0.0}, 0);
  gives("sigmoid(t0)", {-1}, 1 / (1 + std::exp(1.0)));
  gives("softplus(t0)", {2}, std::log1p(std::exp(2.0)));
  gives("softplus(t0)", {800}, 800);
  gives("pow(t0, 3)", {-2}, -8);
  gives("pow(t0, -2)", {-4}, 0.0625);
  gives("pow(t0, 1)", {7}, 7);
  gives("pow(t0, -3)", {0}, kInfinity);
  gives("pow(t0, 1000)", {-1}, 1);
  gives("pow(t0, 0.5)", {9}, 3);
  gives("pow(t0, 0.5)", {0}, 0);
  gives("pow(t0, -0.5)", {0}, kInfinity);
  gives("pow(t0, 2.5)", {4}, 32);
  gives("pow(2, t0)", {5}, 32);
  gives("pow(t0, t1)", {3, 4}, 81);
  gives("pow(t0, t1)", {0, 4}, 0);
  gives("pow(t0, t1)", {0, 0}, 1);
  gives("pow(t0, t1)", {0, -1}, kInfinity);
  gives("select(t0 < 1, t1, 5) + select(t0 >= 1, 100, 0)", {0, 3}, 3);
  for (const auto& [sign, less, equal, greater] :
       {std::tuple{"<", 1, 0, 0}, {"<=", 1, 1, 0}, {">", 0, 0, 1}, {">=", 0, 1, 1}, {"==", 0, 1, 0}, {"!=", 1, 0, 1}}) {
    const std::string text = std::string("select(t0 ") + sign + " 2, 1, 0)";
    gives(text, {1}, less);
    gives(text, {2}, equal);
    gives(text, {3}, greater);
  }
  gives("select(1 < 2, t0, 7)", {4}, 4);
  gives("select(2 != 2, 7, t0)", {4}, 4);
  // Constants are computed before.
  CHECK(parse_map("t0 * (2 * 3 - sqrt(16))", 1).value == formula({operand(0) * 2.0}));
  CHECK(parse_map("t0 * -(2)", 1).value == formula({operand(0) * -2.0}));
}

TEST_CASE("a map's formula: a NaN stays a NaN") {
  for (const char* text : {"abs(t0)", "sigmoid(t0)", "softplus(t0)", "max(t0, 0)", "max(0, t0)", "min(t0, 1)", "min(1, t0)",
                           "pow(t0, 2)", "pow(t0, 0.5)", "pow(t0, 1.7)", "pow(2, t0)"}) {
    INFO(text);
    CHECK(std::isnan(value_of(text, {kNan})));
    CHECK(std::isnan(gradient_of(text, {0.3}, 0, kNan)));
  }
  for (const char* text : {"max(t0, t1)", "min(t0, t1)", "pow(t0, t1)"}) {
    INFO(text);
    CHECK(std::isnan(value_of(text, {kNan, 1})));
    CHECK(std::isnan(value_of(text, {1, kNan})));
    CHECK(std::isnan(value_of(text, {0, kNan})));
  }
}

TEST_CASE("a map's formula: gradients are finite differences") {
  const std::vector<std::pair<std::string, std::size_t>> texts{{"t0 * tanh(log1p(exp(t0)))", 1},
                                                               {"exp(t0) + expm1(t0) * log(t0 + 3) / sqrt(t0 + 4) - erf(t0)", 1},
                                                               {"sigmoid(t0) * softplus(t1 - t0)", 2},
                                                               {"max(t0, t1) * min(t1, 0.3) + abs(t0 - t1)", 2},
                                                               {"pow(abs(t0) + 0.2, t1) + pow(t1, 3) - pow(t0, 4)", 2},
                                                               {"pow(abs(t0), 1.7) + pow(t1 + 2, 0.5) + pow(2, t0 * t1)", 2},
                                                               {"select(t0 * t1 > 0, t2 / (t0 - 2), t1 * t2 * t2)", 3},
                                                               {"1 / (1 + exp(-t0)) - 2", 1}};
  for (const auto& [text, operands] : texts)
    for (double first : {-1.3, -0.4, 0.55, 1.25}) {
      Numbers at;
      for (std::size_t k = 0; k < operands; k++) at.push_back(first + 0.37 * static_cast<double>(k));
      for (int k = 0; k < static_cast<int>(operands); k++) {
        constexpr double kStep = 1e-6;
        Numbers up = at, down = at;
        up[static_cast<std::size_t>(k)] += kStep;
        down[static_cast<std::size_t>(k)] -= kStep;
        INFO(text << " by t" << k << " at " << first);
        const double expected = (value_of(text, up) - value_of(text, down)) / (2 * kStep);
        CHECK(gradient_of(text, at, k, 3) == Approx(3 * expected).epsilon(1e-7).margin(1e-8));
      }
    }
}

TEST_CASE("a map's formula: gradients at ties, at 0 and far out") {
  for (const char* text : {"max(t0, t1)", "min(t0, t1)"}) {
    CHECK(gradient_of(text, {2, 2}, 0) == 1);
    CHECK(gradient_of(text, {2, 2}, 1) == 0);
  }
  CHECK(gradient_of("max(t0, 0)", {0}, 0) == 1);
  CHECK(gradient_of("max(0, t0)", {0}, 0) == 0);
  CHECK(gradient_of("abs(t0)", {0}, 0) == 0);
  CHECK(gradient_of("abs(t0)", {-0.0}, 0) == 0);
  CHECK(gradient_of("pow(t0, 2)", {0}, 0) == 0);
  CHECK(gradient_of("1 / (pow(t0, -2) + 1)", {0}, 0) == 0);
  CHECK(gradient_of("pow(t0, t1)", {0, 1}, 0) == 1);
  CHECK(gradient_of("pow(t0, t1)", {0, 2}, 0) == 0);
  CHECK(gradient_of("pow(t0, 0.5)", {0}, 0) == 0);
  CHECK(gradient_of("pow(t0, 1.5)", {0}, 0) == 0);
  CHECK(gradient_of("pow(t0, t1)", {0, 2}, 0) == 0);
  CHECK(gradient_of("pow(t0, t1)", {0, 2}, 1) == 0);
  CHECK(gradient_of("pow(t0, t1)", {0, 0}, 1) == 0);
  CHECK(gradient_of("pow(t0, t1)", {3, 0}, 1) == Approx(std::log(3.0)));
  for (const double x : {-1e30, -1e4, -104.0, -89.0, -20.0, 20.0, 89.0, 104.0, 1e4, 1e30}) {
    INFO(x);
    const bool on = x > 0;
    CHECK(gradient_of<float>("softplus(t0)", {x}, 0) == Approx(on ? 1 : 0).margin(1e-8));
    CHECK(gradient_of<float>("sigmoid(t0)", {x}, 0) == Approx(0).margin(1e-8));
    CHECK(gradient_of<float>("abs(t0)", {x}, 0) == (on ? 1 : -1));
    CHECK(gradient_of<float>("max(t0, 0)", {x}, 0, kInfinity) == (on ? kInfinity : 0));  // a slope of 0 gives 0
    if (std::abs(x) < 1e6) CHECK(gradient_of<float>("t0 * tanh(softplus(t0))", {x}, 0) == Approx(on ? 1 : 0).margin(1e-6));
  }
}

TEST_CASE("a map's formula: a gradient reads what its slope needs") {
  const MapFormula product = parse_map("t0 * t1 + 2 * t2", 3);
  CHECK(product.gradients[0].reads == std::vector<int>{1});
  CHECK(product.gradients[1].reads == std::vector<int>{0});
  CHECK(product.gradients[2].reads.empty());
  CHECK(product.gradients[2].formula == formula({operand(0) * 2.0}));
  CHECK(parse_map("t0 + t1", 2).gradients[1].formula == Formula{});  // dy itself
  CHECK(parse_map("select(t0 < 0, 1, 2) * t1", 2).gradients[0].zero);
  std::string sum = "t0";
  for (int k = 1; k < kMostOperands; k++) sum += " + t" + std::to_string(k);
  for (const MapGradient& g : parse_map("tanh(" + sum + ")", kMostOperands).gradients) {
    CHECK(g.apart);
    CHECK(g.reads.size() == static_cast<std::size_t>(kMostOperands));
  }
  Numbers at(kMostOperands, 0.05);
  CHECK(gradient_of("tanh(" + sum + ")", at, 15, 2) == Approx(2 * (1 - std::pow(std::tanh(0.8), 2))));
}

TEST_CASE("a map's formula: what is refused, and where") {
  const auto says = [](const std::string& text, const std::string& expected, std::size_t operands = 1) {
    INFO(text);
    CHECK(refused(text, operands) == expected);
  };
  says("", "the formula, character 1, its end: there is no formula; expected one of t0, as \"t0 * tanh(t0)\"");
  says("  ", "the formula, character 3, its end: there is no formula; expected one of t0, as \"t0 * tanh(t0)\"");
  says("t0 +", "the formula, character 5, its end: expected a number, an operand as t0, or a function, found the end");
  says("t0 * tahn(t0)", "the formula, character 6, at \"tahn(t0)\": unknown word \"tahn\"; did you mean \"tanh\"?");
  says("relux(t0)",
       "the formula, character 1, at \"relux(t0)\": unknown word \"relux\" (known: select, abs, erf, exp, expm1, log, log1p, max, "
       "min, pow, sigmoid, softplus, sqrt, tanh, t0)");
  says("t0 * t2", "the formula, character 6, at \"t2\": t2 is not there: 2 tensors are read, t0 to t1", 2);
  says("t1", "the formula, character 1, at \"t1\": t1 is not there: one tensor is read, t0");
  says("t99999999999", "the formula, character 1, at \"t99999999999\": t99999999999 is not there: one tensor is read, t0");
  says("t0 * 2", "the formula does not read t1: it is given 2 tensors, t0 to t1; leave one out or use it", 2);
  says("3", "the formula does not read t0: it is given 1 tensor, t0; leave one out or use it");
  says("t0 * 0", "the formula's value does not depend on t0");
  says("(t0 + 1", "the formula, character 8, its end: expected \")\" for the \"(\" at character 1, found the end");
  says("t0 + 1)", "the formula, character 7, at \")\": expected an operator or the end, found \")\"");
  says("t0 t0", "the formula, character 4, at \"t0\": expected an operator or the end, found \"t0\"");
  says("2t0", "the formula, character 2, at \"t0\": expected an operator after a number, found \"t0\"");
  says("t0 ^ 2", "the formula, character 4, at \"^ 2\": expected an operator or the end, found \"^\"; a power is pow(a, b)");
  says("t0 ** 2", "the formula, character 4, at \"** 2\": expected an operator or the end, found \"**\"; a power is pow(a, b)");
  says(
      "t0 < 2",
      "the formula, character 4, at \"< 2\": expected an operator or the end, found \"<\"; a comparison is in select(a < b, x, y)");
  says("t0 ? 1 : 2",
       "the formula, character 4, at \"? 1 : 2\": expected an operator or the end, found \"?\"; a choice is select(a < b, x, y)");
  says("exp t0", "the formula, character 1, at \"exp t0\": exp is a function; expected \"exp(...)\"");
  says("exp(t0, 2)", "the formula, character 7, at \", 2)\": expected \")\" after the operand of exp, found \",\"");
  says("max(t0)", "the formula, character 7, at \")\": expected \",\" and a second operand of max, found \")\"");
  says("max(t0, 1, 2)", "the formula, character 10, at \", 2)\": expected \")\" after the second operand of max, found \",\"");
  says("select(t0, 1, 2)",
       "the formula, character 10, at \", 1, 2)\": select begins with a comparison, as select(t0 < 0, a, b); expected <, <=, >, "
       ">=, == or !=, found \",\"");
  says("t0 * 1e-46",
       "the formula, character 6, at \"1e-46\": expected numbers that f32 has: 0, or 1.2e-38 to 3.4e38 with either sign");
  says("t0 * (1e-30 * 1e-30)",
       "the formula, character 13, at \"* 1e-30)\": this is 1e-60; expected numbers that f32 has: 0, or 1.2e-38 to 3.4e38 with "
       "either sign");
  says("t0 + 1e999",
       "the formula, character 6, at \"1e999\": expected numbers that f32 has: 0, or 1.2e-38 to 3.4e38 with either sign");
  says("t0 + 1e39",
       "the formula, character 6, at \"1e39\": expected numbers that f32 has: 0, or 1.2e-38 to 3.4e38 with either sign");
  says("t0 + 1e-999",
       "the formula, character 6, at \"1e-999\": expected numbers that f32 has: 0, or 1.2e-38 to 3.4e38 with either sign");
  says("t0 + 1.5.2", "the formula, character 9, at \".2\": expected an operator after a number, found \".\"");
  says("t0 + 0x10", "the formula, character 7, at \"x10\": expected an operator after a number, found \"x10\"");
  says("t0 + .", "the formula, character 6, at \".\": expected a number");
  says("t0 + 1e38 * 100",
       "the formula, character 11, at \"* 100\": this is 1e+40; expected numbers that f32 has: 0, or 1.2e-38 to 3.4e38 with either "
       "sign");
  says("t0 / 0", "the formula, character 4, at \"/ 0\": a division by 0");
  says("t0 + 1 / (2 - 2)", "the formula, character 8, at \"/ (2 - 2)\": a division by 0");
  says("t0 + log(0)",
       "the formula, character 6, at \"log(0)\": this is -inf; expected numbers that f32 has: 0, or 1.2e-38 to 3.4e38 with either "
       "sign");
  says("t0 + sqrt(-1)",
       "the formula, character 6, at \"sqrt(-1)\": this is not a number; expected numbers that f32 has: 0, or 1.2e-38 to 3.4e38 "
       "with either sign");
  says("t0 + \xc3\xa9",
       "the formula, character 6, at \"??\": expected a number, an operand as t0, or a function, found a character that formulas "
       "do not have");
  says(std::string("t0\0+ 1", 6), "the formula, character 3, at \"?+ 1\": unexpected character");
  for (const char* word : {"nan", "inf", "infinity", "NaN", "random", "position", "i0", "x"})
    CHECK_THAT(refused(std::string("t0 + ") + word), Catch::Contains("unknown word \"" + std::string(word) + "\""));
  CHECK_THAT(refused("t0 * " + repeated("very_long", 20)),
             Catch::Contains("character 6, at \"very_longvery_longvery_l...\": unknown"));
}

TEST_CASE("a map's formula: limits") {
  const auto nested = [](int depth) { return repeated("(", depth) + "t0" + repeated(")", depth); };
  CHECK(refused(nested(64)) == "");
  CHECK(refused(nested(65)) == "the formula has 65 parentheses inside each other; at most 64 are possible");
  CHECK(refused(repeated("(", 4000)) == "the formula has 4000 parentheses inside each other; at most 64 are possible");
  CHECK(refused(repeated("-", 4094) + "t0") == "");
  CHECK(refused("t0" + repeated(" ", 4095)) == "the formula has 4097 characters; at most 4096 are possible");
  CHECK(refused(repeated("exp(", 64) + "t0" + repeated(")", 64)) ==
        "the formula has 65 instructions; at most 64 are possible: write it as two maps");
  std::string polynomial = "t0";
  for (int k = 2; k < 34; k++) polynomial = "(" + polynomial + ") * t0 + " + std::to_string(k);
  CHECK_THAT(refused(polynomial), Catch::Contains("the formula has 97 instructions; at most 64 are possible"));
  std::string chain = "t0";
  for (int k = 0; k < 20; k++) chain = "tanh(" + chain + ") * 0.5" + std::to_string(k);
  CHECK_THAT(refused(chain),
             Catch::Contains("the gradient of t0 has ") && Catch::Contains("instructions; at most 64 are possible"));
  std::string repeat = "t0";  // 1,364 sums
  while (repeat.size() + 3 <= 4096) repeat += "+t0";
  CHECK_THAT(refused(repeat), Catch::Contains("the formula has 1365 instructions"));
  CHECK(refused("t0", 0) == "a map reads at least one tensor");
  CHECK(refused("t0", 17) == "a map reads at most 16 tensors, found 17");
}

TEST_CASE("maps, words and operators: names, shapes and errors") {
  Graph g;
  const Dim n{"n", 4}, c{"c", 3};
  const Tensor x = g.input("x", {n, c}), row = g.input("row", Shape{c}), number = g.input("number", {n}, DType::i32);
  CHECK(map("t0 * t1", {row, x}).shape() == x.shape());
  CHECK(map("t0 * 2", {x}, {"double"}).name() == "double");
  CHECK((x + 2.0).name() == "add_3");
  CHECK((x + x * row).shape() == x.shape());
  for (const Tensor& y : {x - row,     x / row,     1.0 - x,     1.0 / x,     2.0 * x,     x - 1.0,     x / 2.0,
                          1.0 + x,     -x,          exp(x),      log(x),      log1p(x),    sqrt(x),     abs(x),
                          softplus(x), sub(row, x), div(row, x), max(x, row), min(x, 0.5), pow(x, 2.0), pow(row, x)})
    CHECK(y.shape() == x.shape());
  CHECK_THROWS_WITH(map("t0", {number}), "map works on floats; \"number\" holds integers");
  CHECK_THROWS_WITH(map("t0 + t1", {x, g.input("other", {n, {"d", 2}})}),
                    "\"other\" and \"x\" cannot be combined: their dims differ (\"c\")");
  CHECK_THROWS_WITH(map("t0 + 1", {}), "a map reads at least one tensor");
  CHECK_THROWS_WITH(x * kNan, Catch::Contains("mul: found the number nan; expected one between"));
  CHECK_THROWS_WITH(max(x, 1e300), Catch::Contains("max: found the number 1e+300; expected one between"));
  CHECK_THROWS_WITH(x / 0.0, Catch::Contains("a division by 0"));
  CHECK_THROWS_WITH(huber(x, g.input("y", x.shape()), {.delta = 0}),
                    Catch::Contains("huber: delta: expected a number of at least 1e-30"));
  Graph other;
  CHECK_THROWS_WITH(x + other.input("z", {n, c}), Catch::Contains("are tensors of two graphs"));
}
