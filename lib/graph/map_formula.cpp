// SPDX-License-Identifier: Apache-2.0
// Text -> Values, by recursive descent: expression, product, factor, operand. Only parentheses recurse, and their depth is known
// before. Gradients follow by the chain rule (kernels/value.h); the words below it are written so that this rule neither divides by
// 0 nor multiplies an infinity by 0.
#include "graph/map_formula.h"

#include <fmt/format.h>
#include <motley/error.h>

#include <algorithm>
#include <array>
#include <cfloat>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "graph/pointwise.h"
#include "kernels/value.h"

namespace motley {

namespace {

bool is_constant(const Value& v) {
  return v.term().op == Opcode::constant;
}
double constant_of(const Value& v) {
  return v.term().constant;
}

// ---- words with a gradient of their own
Value infinity() {
  return Value(1.0) / Value(0.0);
}
Value absolute(const Value& x) {  // at 0 the square, whose slope is 0
  return select(0.0 < x, x, select(x < 0.0, -x, x * x));
}
// Of the greater one. A tie: a. If one is a NaN, that one.
Value greater(const Value& a, const Value& b) {
  if (is_constant(a)) return select(b <= a, a, b);
  return select(a < b, b, is_constant(b) ? a : select(b == b, a, b));
}
Value smaller(const Value& a, const Value& b) {
  if (is_constant(a)) return select(a <= b, a, b);
  return select(b < a, b, is_constant(b) ? a : select(b == b, a, b));
}
Value decaying(const Value& x) {  // exp(-|x|)
  return exp(select(x < 0.0, x, -x));
}
Value logistic(const Value& x) {
  const Value e = decaying(x);
  return select(x < 0.0, e, 1.0) / (1.0 + e);
}
Value soft_plus(const Value& x) {
  return select(x < 0.0, 0.0, x) + log1p(decaying(x));
}

Value power_of_whole(const Value& a, int exponent) {
  Value square = a, out = 1.0;
  for (int left = std::abs(exponent); left > 0; left /= 2) {
    if (left % 2 == 1) out = out * square;
    if (left > 1) square = square * square;
  }
  return exponent < 0 ? 1.0 / out : out;
}
constexpr int kMostWholePower = 1024;
// At a = 0 a constant in place of a function whose slope is not finite there.
Value power(const Value& a, const Value& b) {
  if (is_constant(a) && constant_of(a) > 0) return exp(b * std::log(constant_of(a)));
  const Value not_0 = select(a == 0.0, 1.0, a);
  if (!is_constant(b)) {
    const Value at_0 = select(0.0 < b, select(b == 1.0, a, 0.0), select(b < 0.0, infinity(), select(b == b, 1.0, b)));
    return select(a == 0.0, at_0, exp(b * log(not_0)));
  }
  const double exponent = constant_of(b);
  if (exponent == std::round(exponent) && std::abs(exponent) <= kMostWholePower) {
    if (exponent >= 0) return power_of_whole(a, static_cast<int>(exponent));
    return select(a == 0.0, infinity(), power_of_whole(not_0, static_cast<int>(exponent)));
  }
  const Value else_ = exponent == 0.5 ? sqrt(not_0) : exp(b * log(not_0));
  return select(a == 0.0, exponent < 0 ? infinity() : Value(0.0), else_);
}

struct Word {
  std::function<Value(const Value&)> of_one{};
  std::function<Value(const Value&, const Value&)> of_two{};
  double (*constant)(double, double) = nullptr;  // of constants
};

const std::map<std::string, Word>& words() {
  static const std::map<std::string, Word> table{
      {"exp", {.of_one = [](const Value& x) { return exp(x); }, .constant = [](double x, double) { return std::exp(x); }}},
      {"expm1", {.of_one = [](const Value& x) { return expm1(x); }, .constant = [](double x, double) { return std::expm1(x); }}},
      {"log", {.of_one = [](const Value& x) { return log(x); }, .constant = [](double x, double) { return std::log(x); }}},
      {"log1p", {.of_one = [](const Value& x) { return log1p(x); }, .constant = [](double x, double) { return std::log1p(x); }}},
      {"sqrt", {.of_one = [](const Value& x) { return sqrt(x); }, .constant = [](double x, double) { return std::sqrt(x); }}},
      {"tanh", {.of_one = [](const Value& x) { return tanh(x); }, .constant = [](double x, double) { return std::tanh(x); }}},
      {"erf", {.of_one = [](const Value& x) { return erf(x); }, .constant = [](double x, double) { return std::erf(x); }}},
      {"abs", {.of_one = absolute, .constant = [](double x, double) { return std::abs(x); }}},
      {"sigmoid", {.of_one = logistic, .constant = [](double x, double) { return 1 / (1 + std::exp(-x)); }}},
      {"softplus",
       {.of_one = soft_plus, .constant = [](double x, double) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }}},
      {"max", {.of_two = greater, .constant = [](double x, double y) { return std::max(x, y); }}},
      {"min", {.of_two = smaller, .constant = [](double x, double y) { return std::min(x, y); }}},
      {"pow", {.of_two = power, .constant = [](double x, double y) { return std::pow(x, y); }}}};
  return table;
}

// ---- the text
constexpr const char* kNumbers = "numbers that f32 has: 0, or 1.2e-38 to 3.4e38 with either sign";
bool is_lost(double constant) {  // in f32
  return constant != 0 && std::abs(constant) < static_cast<double>(FLT_MIN);
}

struct Condition {
  Value holds{0.0};
  bool inverted = false;
  std::optional<bool> known{};  // of two constants
};

class Parser {
 public:
  Parser(const std::string& text, std::size_t operands) : text_(text), operands_(operands) {}

  Value run() {
    check_sizes();
    if (peek() == '\0') fail(at_, "there is no formula; expected one of t0, as \"t0 * tanh(t0)\"");
    Value v = expression();
    if (peek() != '\0') fail(at_, fmt::format("expected an operator or the end, found {}", found()));
    for (std::size_t k = 0; k < operands_; k++)
      if (!used_.contains(static_cast<int>(k)))
        throw UserError(fmt::format("the formula does not read t{}: it is given {} tensor{}, t0{}; leave one out or use it", k,
                                    operands_, operands_ == 1 ? "" : "s",
                                    operands_ == 1 ? "" : fmt::format(" to t{}", operands_ - 1)));
    return v;
  }

 private:
  // `where`: an index of the text.
  [[noreturn]] void fail(std::size_t where, const std::string& what) const {
    constexpr std::size_t kShown = 24;
    std::string rest;
    for (const char c : text_.substr(where, kShown)) rest += c < ' ' || c > '~' ? '?' : c;
    const std::string at = rest.empty() ? ", its end" : ", at \"" + rest + (where + kShown < text_.size() ? "..." : "") + "\"";
    throw UserError(fmt::format("the formula, character {}{}: {}", where + 1, at, what));
  }

  void check_sizes() const {
    if (operands_ == 0) throw UserError("a map reads at least one tensor");
    if (operands_ > static_cast<std::size_t>(kMostOperands))
      throw UserError(fmt::format("a map reads at most {} tensors, found {}", kMostOperands, operands_));
    if (text_.size() > kMostFormulaText)
      throw UserError(fmt::format("the formula has {} characters; at most {} are possible", text_.size(), kMostFormulaText));
    int depth = 0, deepest = 0;
    for (const char c : text_) {
      depth += c == '(' ? 1 : c == ')' ? -1 : 0;
      deepest = std::max(deepest, depth);
    }
    if (deepest > kMostNesting)
      throw UserError(
          fmt::format("the formula has {} parentheses inside each other; at most {} are possible", deepest, kMostNesting));
  }

  // ---- characters
  static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
  char here() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  char peek() {  // the next character that is not a space; '\0': the end, or a zero in the text
    while (is_space(here())) at_++;
    if (at_ < text_.size() && here() == '\0') fail(at_, "unexpected character");
    return here();
  }
  bool take(char c) {
    if (peek() != c) return false;
    at_++;
    return true;
  }
  void expect(char c, const char* why) {
    if (!take(c)) fail(at_, fmt::format("expected \"{}\" {}, found {}", c, why, found()));
  }
  std::string found() {
    const char c = peek();
    if (c == '\0') return "the end";
    if (is_letter(c)) return "\"" + word_at(at_) + "\"";
    if (c == '^' || text_.compare(at_, 2, "**") == 0) return std::string(c == '^' ? "\"^\"" : "\"**\"") + "; a power is pow(a, b)";
    if (c == '<' || c == '>' || c == '=' || c == '!') return std::string("\"") + c + "\"; a comparison is in select(a < b, x, y)";
    if (c == '&' || c == '|' || c == '?') return std::string("\"") + c + "\"; a choice is select(a < b, x, y)";
    return c < ' ' || c > '~' ? "a character that formulas do not have" : std::string("\"") + c + "\"";
  }
  std::string word_at(std::size_t from) const {
    std::size_t end = from;
    while (end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end]))) end++;
    return text_.substr(from, std::min<std::size_t>(end - from, 40));
  }

  // ---- values. Constants are computed here, in f64.
  Value folded(std::size_t where, const Value& v, double constant, bool is_folded) const {
    if (!is_folded) return v;
    if (!(std::abs(constant) <= static_cast<double>(FLT_MAX)) || is_lost(constant))
      fail(where, fmt::format("this is {}; expected {}", std::isnan(constant) ? "not a number" : fmt::format("{:.6g}", constant),
                              kNumbers));
    return constant;
  }
  Value binary(std::size_t where, char sign, const Value& a, const Value& b) const {
    const bool both = is_constant(a) && is_constant(b);
    const double x = both ? constant_of(a) : 0, y = both ? constant_of(b) : 0;
    switch (sign) {
      case '+': return folded(where, a + b, x + y, both);
      case '-': return folded(where, a - b, x - y, both);
      case '*': return folded(where, a * b, x * y, both);
      default: break;
    }
    if (is_constant(b) && constant_of(b) == 0) fail(where, "a division by 0");
    return folded(where, a / b, both ? x / y : 0, both);
  }

  Value expression() {
    Value v = product();
    for (;;) {
      const char sign = peek();
      const std::size_t where = at_;
      if (sign != '+' && sign != '-') return v;
      at_++;
      v = binary(where, sign, v, product());
    }
  }
  Value product() {
    Value v = factor();
    for (;;) {
      const char sign = peek();
      const std::size_t where = at_;
      if ((sign != '*' && sign != '/') || text_.compare(at_, 2, "**") == 0) return v;
      at_++;
      v = binary(where, sign, v, factor());
    }
  }
  Value factor() {
    bool negative = false;
    while (take('-')) negative = !negative;
    const Value v = primary();
    return negative ? -v : v;
  }
  Value primary() {
    const char c = peek();
    const std::size_t where = at_;
    if (take('(')) {
      Value v = expression();
      expect(')', fmt::format("for the \"(\" at character {}", where + 1).c_str());
      return v;
    }
    if (is_digit(c) || c == '.') return number();
    if (!is_letter(c)) fail(at_, "expected a number, an operand as t0, or a function, found " + found());
    const std::string word = word_at(at_);
    at_ += word.size();
    if (word.size() > 1 && word[0] == 't' && std::all_of(word.begin() + 1, word.end(), is_digit)) return operand_of(where, word);
    return call(where, word);
  }

  Value number() {
    const std::size_t where = at_;
    double value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    const auto length = static_cast<std::size_t>(end - (text_.data() + at_));
    if (error == std::errc::invalid_argument) fail(where, "expected a number");
    if (error == std::errc::result_out_of_range || std::abs(value) > static_cast<double>(FLT_MAX) || is_lost(value))
      fail(where, fmt::format("expected {}", kNumbers));
    at_ += length;
    if (is_letter(here()) || here() == '.') fail(at_, fmt::format("expected an operator after a number, found {}", found()));
    return value;
  }

  Value operand_of(std::size_t where, const std::string& word) {
    int number = -1;
    const auto [end, error] = std::from_chars(word.data() + 1, word.data() + word.size(), number);
    if (error != std::errc() || number >= static_cast<int>(operands_))
      fail(where, operands_ == 1 ? word + " is not there: one tensor is read, t0"
                                 : fmt::format("{} is not there: {} tensors are read, t0 to t{}", word, operands_, operands_ - 1));
    used_.insert(number);
    return operand(number);
  }

  Value call(std::size_t where, const std::string& word) {
    const auto found_word = words().find(word);
    if (found_word == words().end() && word != "select") unknown(where, word);
    if (!take('(')) fail(where, fmt::format("{} is a function; expected \"{}(...)\"", word, word));
    if (word == "select") return choice();
    const Word& its = found_word->second;
    const Value a = expression();
    if (its.of_one) {
      expect(')', fmt::format("after the operand of {}", word).c_str());
      return folded(where, its.of_one(a), is_constant(a) ? its.constant(constant_of(a), 0) : 0, is_constant(a));
    }
    expect(',', fmt::format("and a second operand of {}", word).c_str());
    const Value b = expression();
    expect(')', fmt::format("after the second operand of {}", word).c_str());
    const bool both = is_constant(a) && is_constant(b);
    return folded(where, its.of_two(a, b), both ? its.constant(constant_of(a), constant_of(b)) : 0, both);
  }
  [[noreturn]] void unknown(std::size_t where, const std::string& word) const {
    std::vector<std::string> known = map_words();
    for (std::size_t k = 0; k < operands_; k++) known.push_back("t" + std::to_string(k));
    fail(where, fmt::format("unknown word \"{}\"{}", word, did_you_mean(word, known)));
  }

  // select(a < b, x, y), after its parenthesis.
  Value choice() {
    const Condition c = condition();
    expect(',', "after the comparison of select");
    const Value then = expression();
    expect(',', "and what select gives where the comparison does not hold");
    const Value otherwise = expression();
    expect(')', "after the third operand of select");
    if (c.known) return *c.known ? then : otherwise;
    return c.inverted ? select(c.holds, otherwise, then) : select(c.holds, then, otherwise);
  }
  Condition condition() {
    const Value a = expression();
    peek();
    std::string sign;
    for (const char* one : {"<=", ">=", "==", "!=", "<", ">"})
      if (sign.empty() && text_.compare(at_, std::string(one).size(), one) == 0) sign = one;
    if (sign.empty())
      fail(at_, "select begins with a comparison, as select(t0 < 0, a, b); expected <, <=, >, >=, == or !=, found " + found());
    at_ += sign.size();
    const Value b = expression();
    Condition c;
    c.inverted = sign == "!=";
    c.holds = sign == "<" ? a < b : sign == "<=" ? a <= b : sign == ">" ? b < a : sign == ">=" ? b <= a : a == b;
    if (is_constant(a) && is_constant(b)) {
      const double x = constant_of(a), y = constant_of(b);
      c.known = sign == "<"    ? x < y
                : sign == "<=" ? x <= y
                : sign == ">"  ? x > y
                : sign == ">=" ? x >= y
                : sign == "==" ? x == y
                               : x != y;
    }
    return c;
  }

  const std::string& text_;
  const std::size_t operands_;
  std::size_t at_ = 0;
  std::set<int> used_{};
};

// ---- Values -> formulas
// The instructions of a value, equal ones counted once, and the operands that it reads.
class Counter {
 public:
  int add(const Value& v) {
    const Value::Term& t = v.term();
    if (const auto known = terms_.find(&t); known != terms_.end()) return known->second;
    std::array<int, 3> of{-1, -1, -1};
    for (std::size_t k = 0; k < t.of.size(); k++) of[k] = add(t.of[k]);
    if (t.op == Opcode::operand) reads.insert(t.number);
    const auto number = static_cast<int>(codes_.size());
    const int its = codes_.emplace(std::tuple(t.op, t.number, t.constant, of), number).first->second;
    terms_.emplace(&t, its);
    return its;
  }
  std::size_t instructions() const { return codes_.size(); }
  std::set<int> reads{};

 private:
  std::map<std::tuple<Opcode, int, double, std::array<int, 3>>, int> codes_{};
  std::map<const Value::Term*, int> terms_{};
};

void check_length(const Counter& counted, const std::string& what) {
  if (counted.instructions() > static_cast<std::size_t>(kMostInstructions))
    throw UserError(fmt::format("{} has {} instructions; at most {} are possible: write it as two maps", what,
                                counted.instructions(), kMostInstructions));
}

MapGradient gradient_of(const Value& value, int number) {
  MapGradient out;
  const Value slope = derivative(value, number);
  if (is_constant(slope) && constant_of(slope) == 0) return {.zero = true};
  Counter counted;
  counted.add(slope);
  out.reads.assign(counted.reads.begin(), counted.reads.end());
  out.apart = out.reads.size() == static_cast<std::size_t>(kMostOperands);
  const int first = out.apart ? 0 : 1;
  std::map<int, int> place;
  for (std::size_t k = 0; k < out.reads.size(); k++) place[out.reads[k]] = static_cast<int>(k) + first;
  check_length(counted, fmt::format("the gradient of t{}", number));
  const Value its = apply(formula({slope}), [&](int k) { return operand(place.at(k)); }).front();
  if (out.apart) {
    out.formula = formula({its});
    return out;
  }
  const Value product = gradient_times(operand(0), its);
  Counter whole;
  whole.add(product);
  check_length(whole, fmt::format("the gradient of t{}", number));
  out.formula = formula({product});
  return out;
}

}  // namespace

const std::vector<std::string>& map_words() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> out{"select"};
    for (const auto& [word, its] : words()) out.push_back(word);
    return out;
  }();
  return all;
}

MapFormula parse_map(const std::string& text, std::size_t operands) {
  const Value value = Parser(text, operands).run();
  Counter counted;
  counted.add(value);
  check_length(counted, "the formula");
  for (std::size_t k = 0; k < operands; k++)
    if (!counted.reads.contains(static_cast<int>(k))) throw UserError(fmt::format("the formula's value does not depend on t{}", k));
  MapFormula out{.value = formula({value})};
  for (std::size_t k = 0; k < operands; k++) out.gradients.push_back(gradient_of(value, static_cast<int>(k)));
  return out;
}

}  // namespace motley
