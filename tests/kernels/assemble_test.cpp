// SPDX-License-Identifier: Apache-2.0
// Loops in machine code against the formula one position at a time: the same bits, nothing read or written beyond the elements.
#include "kernels/loops/assemble.h"

#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "kernels/loops/this_cpu.h"
#include "kernels/value.h"
#include "tests/support/random.h"

using namespace motley;
using namespace motley::cpu;
using motley::testing::Random;

namespace {

#include "kernels/loops/math.inc"

// Floats whose last one is the last of a page; beyond is memory that may not be touched.
class Fenced {
 public:
  explicit Fenced(std::size_t floats) : bytes_((floats * sizeof(float) / page() + 1) * page()), size_(floats) {
    all_ = static_cast<std::byte*>(mmap(nullptr, bytes_ + page(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(all_ != MAP_FAILED);
    REQUIRE(mprotect(all_ + bytes_, page(), PROT_NONE) == 0);
  }
  Fenced(const Fenced&) = delete;
  ~Fenced() { munmap(all_, bytes_ + page()); }
  float* begin() const { return reinterpret_cast<float*>(all_ + bytes_) - size_; }
  std::size_t size() const { return size_; }

 private:
  static std::size_t page() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }
  std::size_t bytes_, size_;
  std::byte* all_ = nullptr;
};

std::vector<const Loops*> loops() {
  std::vector<const Loops*> out;
  for (int simd = static_cast<int>(Simd::sse41); simd <= static_cast<int>(simd_within("")); simd++)
    out.push_back(&loops_of(static_cast<Simd>(simd)));
  return out;
}
FormulaLoop loop_of(const Formula& f, Simd simd, std::uint32_t still) {
  return assembled(plain_of(f), shape_of(f).hash, simd, still);
}
bool makes_loops() {
  return !loops().empty() && loop_of(formula({operand(0) + operand(1)}), loops()[0]->simd, 0) != nullptr;
}

enum class Functions : std::uint8_t { no, yes };

// Of operands 0 to 2, the integers 3 and the scalar 4.
Value any(Random& random, int depth, Functions functions) {
  if (depth == 0) {
    if (random.one_in(5)) return random.real(-2, 2);
    return random.one_in(6) ? scalar(4) : operand(static_cast<int>(random.in(0, 2)));
  }
  const auto next = [&] { return any(random, static_cast<int>(random.in(0, depth - 1)), functions); };
  if (functions == Functions::yes && random.one_in(3)) {
    const Value x = random.one_in(4) ? next() * 40.0 : next();
    switch (random.in(0, 5)) {
      case 0: return exp(x);
      case 1: return expm1(x);
      case 2: return tanh(x);
      case 3: return log(x);
      case 4: return log1p(x);
      default: return erf(x);
    }
  }
  switch (random.in(0, 9)) {
    case 0: return next() + next();
    case 1: return next() - next();
    case 2: return next() * next();
    case 3: return next() / next();
    case 4: return sqrt(next());
    case 5: return select(next() < next(), next(), next());
    case 6: return select(next() <= next(), next(), next());
    case 7: return select(next() == next(), next(), next());
    case 8: return select(matches(integer(3), whole(static_cast<int>(random.in(-1, 2)))), next(), next());
    default: return select(precedes(whole(static_cast<int>(random.in(-1, 2))), integer(3)), next(), next());
  }
}

// Rows of n elements, `gap` elements apart; `onto`: the operand that the first result is stored onto, or -1.
struct Case {
  Formula formula{};
  Index rows = 1, n = 1, gap = 0;
  std::uint32_t still = 0;
  int onto = -1;
};

Case any_case(Random& random, Functions functions) {
  Case c;
  std::vector<Value> results{any(random, static_cast<int>(random.in(1, 3)), functions)};
  while (random.one_in(3) && results.size() < 3) results.push_back(any(random, 2, functions));
  c.formula = formula(results);
  c.rows = random.in(1, 4);
  c.n = random.in(0, 70);
  c.gap = random.in(0, 3);
  for (std::uint32_t k = 0; k < 4; k++) c.still |= random.one_in(4) ? 1U << k : 0U;
  if (random.one_in(3)) c.onto = static_cast<int>(random.in(0, 2));
  if (c.onto >= 0 && (c.still >> c.onto & 1) != 0) c.onto = -1;
  return c;
}

bool same(float a, float b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b));
}

// Functions of math.inc become operands, numbered from here on, which are computed from the register that they read.
constexpr int kFunctions = kMostInstructions;
PlainFormula with_functions_read(PlainFormula f) {
  for (int i = 0; i < f.count; i++)
    if (is_function(f.code[i].op) && f.code[i].op != Opcode::sqrt)
      f.code[i] = {Opcode::operand, static_cast<std::int8_t>(kFunctions + i), 0, 0};
  return f;
}
float function_of(const PlainInstruction& s, const Registers<float>& r) {
  const float x = r.real[s.a];
  switch (s.op) {
    case Opcode::exp: return exp_of(x);
    case Opcode::expm1: return expm1_of(x);
    case Opcode::log: return log_of(x);
    case Opcode::log1p: return log1p_of(x);
    case Opcode::tanh: return tanh_of(x);
    default: return erf_of(x);
  }
}

// Empty: its results are those of kernels/evaluate.h, and no element between rows has changed.
std::string fault_of(const Case& c, FormulaLoop loop, Random& random) {
  const PlainFormula plain = plain_of(c.formula), read = with_functions_read(plain);
  const Index step = c.n + c.gap;
  const auto size = static_cast<std::size_t>((c.rows - 1) * step + c.n);
  std::vector<std::unique_ptr<Fenced>> memory;
  std::vector<std::vector<float>> before;
  const auto results = static_cast<std::size_t>(plain.result_count);
  for (std::size_t k = 0; k < 4 + results; k++) {
    const bool still = k < 4 && (c.still >> k & 1) != 0;
    memory.push_back(std::make_unique<Fenced>(still ? static_cast<std::size_t>(c.rows) : size));
    for (std::size_t i = 0; i < memory.back()->size(); i++) {
      float& to = memory.back()->begin()[i];
      const auto number = static_cast<std::int32_t>(random.in(-2, 3));
      to = random.one_in(20) ? NAN : static_cast<float>(random.one_in(3) ? number : random.real(-3, 3));
      if (k == 3) std::memcpy(&to, &number, sizeof to);
    }
    before.emplace_back(memory.back()->begin(), memory.back()->begin() + memory.back()->size());
  }
  const double number = random.real(-2, 2);
  const std::vector<double> exact = shape_of(c.formula).constants;
  const std::vector<float> constants(exact.begin(), exact.end());
  std::vector<Index> in_steps(5, step), out_steps(results, step);
  Strip strip{};
  for (std::size_t k = 0; k < 4; k++) {
    strip.in[k] = memory[k]->begin();
    if ((c.still >> k & 1) != 0) in_steps[k] = 1;
  }
  strip.in[4] = &number;
  in_steps[4] = 0;
  for (std::size_t k = 0; k < results; k++)
    strip.out[k] = memory[k == 0 && c.onto >= 0 ? static_cast<std::size_t>(c.onto) : 4 + k]->begin();
  strip.constants = constants.data();
  strip.rows = c.rows;
  if (c.rows > 1) strip.in_steps = in_steps.data(), strip.out_steps = out_steps.data();
  loop(strip, c.n);
  std::vector<std::vector<float>> expected = before;
  for (Index row = 0; row < c.rows; row++)
    for (Index i = 0; i < c.n; i++) {
      const auto at = [&](int k) { return static_cast<std::size_t>((c.still >> k & 1) != 0 ? row : row * step + i); };
      Registers<float> r;
      run(
          read, r,
          [&](int k) {
            if (k >= kFunctions) return function_of(plain.code[k - kFunctions], r);
            return k == 4 ? static_cast<float>(number) : before[static_cast<std::size_t>(k)][at(k)];
          },
          [&](int k) {
            std::int32_t value = 0;
            std::memcpy(&value, &before[static_cast<std::size_t>(k)][at(k)], sizeof value);
            return value;
          },
          [](int) { return 0; });
      for (std::size_t k = 0; k < results; k++)
        expected[k == 0 && c.onto >= 0 ? static_cast<std::size_t>(c.onto) : 4 + k][static_cast<std::size_t>(row * step + i)] =
            r.real[plain.results[k]];
    }
  for (std::size_t k = 0; k < memory.size(); k++)
    for (std::size_t i = 0; i < memory[k]->size(); i++)
      if (!same(memory[k]->begin()[i], expected[k][i]))
        return "operand " + std::to_string(k) + ", element " + std::to_string(i) + ": " + std::to_string(memory[k]->begin()[i]) +
               ", expected " + std::to_string(expected[k][i]);
  return "";
}

}  // namespace

TEST_CASE("loops in machine code: random formulas have the bits of one position after another") {
  if (!makes_loops()) return;
  for (const Loops* const isa : loops()) {
    int made = 0;
    for (int number = 0; number < 3000; number++) {
      Random random(7, number);
      const Case c = any_case(random, number % 2 == 0 ? Functions::no : Functions::yes);
      const FormulaLoop loop = loop_of(c.formula, isa->simd, c.still);
      if (loop == nullptr || c.formula.code.empty()) continue;
      made++;
      const std::string fault = fault_of(c, loop, random);
      INFO(isa->name << ", case " << number << ": " << to_text(c.formula) << ", " << c.rows << " rows of " << c.n << ", still "
                     << c.still << ", onto " << c.onto);
      REQUIRE(fault == "");
    }
    CHECK(made > (isa->simd == Simd::avx512 ? 1500 : 2400));
  }
}

TEST_CASE("loops in machine code: functions have the bits of the compiled ones at any number") {
  if (!makes_loops()) return;
  const Value x = operand(0);
  for (const Loops* const isa : loops())
    for (const Value& f : {exp(x), expm1(x), log(x), log1p(x), tanh(x), erf(x)}) {
      const FormulaLoop loop = loop_of(formula({f}), isa->simd, 0);
      CHECK((loop == nullptr) == (isa->simd == Simd::avx512));
      if (loop == nullptr) continue;
      std::vector<float> in, out;
      for (std::uint32_t bits = 0; bits < 0xff800000U; bits += 104729U) in.push_back(as_float(bits));
      for (const float edge :
           {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 0.625f, 9.1f, -9.1f, 0.921875f, -104.0f, 89.0f, 88.7f, -87.4f})
        in.push_back(edge);
      out.resize(in.size());
      Strip strip{};
      strip.in[0] = in.data();
      strip.out[0] = out.data();
      strip.rows = 1;
      loop(strip, static_cast<Index>(in.size()));
      const PlainFormula plain = plain_of(formula({f}));
      Registers<float> r;
      int wrong = 0;
      for (std::size_t i = 0; i < in.size(); i++) {
        r.real[0] = in[i];
        wrong += same(out[i], function_of(plain.code[1], r)) ? 0 : 1;
      }
      INFO(isa->name << ": " << to_text(formula({f})));
      CHECK(wrong == 0);
    }
}

TEST_CASE("logarithms of loops are those of the C library but for 3 units in the last place") {
  double most = 0;
  for (std::uint32_t bits = 1; bits < 0x7f800000U; bits += 10007U) {
    const float x = as_float(bits);
    const double exact = std::log(static_cast<double>(x)), one_more = std::log1p(static_cast<double>(x));
    most = std::max(most, std::abs(static_cast<double>(log_of(x)) - exact) / std::max(std::abs(exact), 1e-30));
    most = std::max(most, std::abs(static_cast<double>(log1p_of(x)) - one_more) / std::max(std::abs(one_more), 1e-38));
    if (x < 1.0f)
      most = std::max(most, std::abs(static_cast<double>(log1p_of(-x)) - std::log1p(-static_cast<double>(x))) /
                                -std::log1p(-static_cast<double>(x)));
  }
  CHECK(most < 3 * 1.2e-7);
  CHECK(log_of(1.0f) == 0);
  CHECK(log_of(0.0f) == -INFINITY);
  CHECK(log_of(-0.0f) == -INFINITY);
  CHECK(log_of(INFINITY) == INFINITY);
  CHECK(log1p_of(INFINITY) == INFINITY);
  CHECK(log1p_of(-1.0f) == -INFINITY);
  for (const float x : {-1.5f, -INFINITY, NAN}) {
    CHECK(std::isnan(log_of(x)));
    CHECK(std::isnan(log1p_of(x)));
  }
}

TEST_CASE("loops in machine code: one for all formulas of a shape, none for positions and too many registers") {
  if (!makes_loops()) return;
  const Value a = operand(0), b = operand(1);
  for (const Loops* const isa : loops()) {
    const auto loop = [&](const Value& value) { return loop_of(formula({value}), isa->simd, 0); };
    CHECK(loop(a * 2.0 + b) == loop(a * 3.0 + b));
    CHECK(loop(a * 2.0 + b) != loop(b * 2.0 + a));
    CHECK(loop(select(matches(position(0), whole(1)), a, b)) == nullptr);
    Value sum = a;  // constants stay in registers
    for (int k = 0; k < 14; k++) sum = sum + (a * (0.5 + k) + b);
    CHECK(loop(sum) == nullptr);
  }
  CHECK(loop_of(formula({a + b}), Simd::generic, 0) == nullptr);
}
