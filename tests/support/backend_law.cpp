// SPDX-License-Identifier: Apache-2.0
#include "tests/support/backend_law.h"

#include <motley/error.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <sstream>
#include <utility>

#include "kernels/evaluate.h"
#include "kernels/kernel_names.h"
#include "kernels/operands.h"
#include "tests/support/formulas.h"

namespace motley::testing {
namespace {

// u: half a step
double unit_of(DType dtype) {
  return dtype == DType::f64 ? 0x1p-53 : 0x1p-24;
}
constexpr double kFunction = 0x1p-19;   // exp, tanh, erf ...: what vendors' approximations are allowed
constexpr double kExactBelow = 0x1p24;  // integers that f32 keeps

void each(Image& image, double (*function)(double)) {
  std::transform(image.begin(), image.end(), image.begin(), function);
}
double absolute(double v) {
  return std::abs(v);
}

// |.|: the same sums over absolute values, determined by a spec that computes them from changed operands.
LawCase magnitude_of(const LawCase& one) {
  LawCase m = one;
  KernelSpec& spec = m.spec;
  spec.epilogue = {};
  m.options.alias = -1;
  for (std::size_t i = 0; i < m.images.size(); i++)
    if (!(spec.op == KernelOp::max_pool2d && spec.pass == PassKind::backward_data && i == 1)) each(m.images[i], absolute);
  return m;
}

// Additions after one result.
double terms_of(const KernelSpec& spec) {
  const Roles& e = spec.roles;
  const auto real = [](Index v) { return static_cast<double>(v); };
  switch (spec.op) {
    case KernelOp::conv2d:
      if (spec.pass == PassKind::forward) return real(e.c * e.r * e.s) + 1;
      if (spec.pass == PassKind::backward_data) return real(e.f * e.r * e.s);
      return real(e.n * e.p * e.q);
    case KernelOp::dense: return real(spec.pass == PassKind::forward ? e.c + 1 : spec.pass == PassKind::backward_data ? e.f : e.n);
    case KernelOp::max_pool2d:
    case KernelOp::avg_pool2d: return real(e.r * e.s);
    case KernelOp::map:
    case KernelOp::attention: break;
  }
  return 0;
}

// Of a contraction or a pool; an epilogue's slope is 1.2 at most.
double bound_of(const KernelSpec& spec, double magnitude) {
  if (spec.op == KernelOp::max_pool2d && spec.pass == PassKind::forward) return 0;
  const double rounding = (terms_of(spec) + 8) * unit_of(spec.dtype) * magnitude;
  return spec.epilogue.code.empty() ? rounding : 1.2 * rounding + kFunction * (1 + magnitude);
}

// A value and how far off it may be.
struct Bounded {
  double value = 0, error = 0;
};

// What every register may be off, when each instruction rounds once (running error analysis: Higham, Accuracy and Stability of
// Numerical Algorithms, 3.3).
class ErrorAnalysis {
 public:
  ErrorAnalysis(const Formula& formula, double unit, double function) : formula_(formula), unit_(unit), function_(function) {}
  template <class Operand, class Integer>
  std::vector<Bounded> results(Operand&& operand, Integer&& integer) {
    if (formula_.code.empty()) return {operand(0)};
    registers_.clear();
    for (const Instruction& s : formula_.code) {
      if (s.op == Opcode::operand || s.op == Opcode::scalar)
        registers_.push_back(operand(s.a));
      else if (s.op == Opcode::whole)
        registers_.push_back({s.value, 0});
      else if (s.op == Opcode::integer || s.op == Opcode::position)
        registers_.push_back({static_cast<double>(integer(s)), 0});
      else
        registers_.push_back(of(s));
      Bounded& made = registers_.back();
      if (unit_ > 1e-10 && std::abs(made.value) + made.error > 1e38) made.error = HUGE_VAL;  // infinite in f32
      if (std::isnan(made.error)) made.error = HUGE_VAL;                                     // 0 times an error without bound
    }
    std::vector<Bounded> out;
    for (const int r : formula_.results) out.push_back(registers_[static_cast<std::size_t>(r)]);
    return out;
  }

 private:
  const Bounded& at(int r) const { return registers_[static_cast<std::size_t>(r)]; }
  Bounded rounded(double value, double error) const { return {value, error + unit_ * (std::abs(value) + error)}; }
  Bounded computed(double value, double slope, double error) const {  // by a library's function
    return {value, slope * error + function_ * (std::abs(value) + slope * error)};
  }
  Bounded of(const Instruction& s) const {
    const Bounded a = s.a < 0 ? Bounded{} : at(s.a), b = s.b < 0 ? Bounded{} : at(s.b), c = s.c < 0 ? Bounded{} : at(s.c);
    const double x = a.value, y = b.value, e = a.error;
    switch (s.op) {
      case Opcode::constant: return {s.value, unit_ * std::abs(s.value)};
      case Opcode::add: return rounded(x + y, e + b.error);
      case Opcode::sub: return rounded(x - y, e + b.error);
      case Opcode::mul: return rounded(x * y, std::abs(x) * b.error + std::abs(y) * e + e * b.error);
      case Opcode::div: {
        const double least = std::abs(y) - b.error;
        return least <= 0 ? Bounded{x / y, HUGE_VAL} : rounded(x / y, (e + std::abs(x / y) * b.error) / least);
      }
      case Opcode::less: return {x < y ? 1.0 : 0.0, std::abs(x - y) <= e + b.error && e + b.error > 0 ? 1.0 : 0.0};
      case Opcode::less_equal: return {x <= y ? 1.0 : 0.0, std::abs(x - y) <= e + b.error && e + b.error > 0 ? 1.0 : 0.0};
      case Opcode::equal:
      case Opcode::matches: return {x == y ? 1.0 : 0.0, 0};
      case Opcode::precedes: return {x < y ? 1.0 : 0.0, 0};
      case Opcode::select: {
        const Bounded& taken = x != 0 ? b : c;
        if (e == 0) return taken;
        return {taken.value, std::abs(y - c.value) + std::max(b.error, c.error)};  // may go either way
      }
      case Opcode::exp: return computed(std::exp(x), std::exp(x + e), e);
      case Opcode::expm1: return computed(std::expm1(x), std::exp(x + e), e);
      case Opcode::log: return computed(std::log(x), x > e ? 1 / (x - e) : HUGE_VAL, e);
      case Opcode::log1p: return computed(std::log1p(x), 1 + x > e ? 1 / (1 + x - e) : HUGE_VAL, e);
      case Opcode::sqrt: return computed(std::sqrt(x), x > e ? 0.5 / std::sqrt(x - e) : HUGE_VAL, e);
      case Opcode::tanh: return computed(std::tanh(x), 1, e);
      case Opcode::erf: return computed(std::erf(x), 1.13, e);
      case Opcode::mix: return {static_cast<double>(mixed(static_cast<std::int32_t>(x), static_cast<std::int32_t>(y))), 0};
      case Opcode::uniform: return {uniform_of<double>(static_cast<std::int32_t>(x)), 0};
      default: return {};
    }
  }
  const Formula& formula_;
  double unit_, function_;
  std::vector<Bounded> registers_{};
};

// Per result, per element in memory: how far off it may be. Elements that no position writes: 0.
std::vector<Image> map_bounds(const LawCase& one, bool f64) {
  const KernelSpec& spec = one.spec;
  const std::vector<OperandUse> uses = operands_of(spec);
  const std::size_t inputs = input_count(spec), results = result_count(spec);
  const double unit = f64 ? 0x1p-53 : 0x1p-24;
  ErrorAnalysis analysis(spec.formula, is_wide(spec) ? 0x1p-53 : unit, f64 || is_wide(spec) ? 0x1p-49 : kFunction);
  std::vector<Image> sums, errors;
  for (std::size_t k = 0; k < results; k++) {
    sums.emplace_back(static_cast<std::size_t>(uses[inputs + k].elements), 0.0);
    errors.push_back(sums.back());
  }
  if (std::find(spec.extents.begin(), spec.extents.end(), 0) != spec.extents.end()) return errors;
  std::vector<Index> at(spec.extents.size(), 0);
  const auto offset = [&](std::size_t i) {
    return static_cast<std::size_t>(std::inner_product(at.begin(), at.end(), spec.operands[i].strides.begin(), Index{0}));
  };
  const auto element = [&](std::size_t i) { return one.images[i][offset(i)]; };
  for (;;) {
    const auto operand = [&](int k) {
      if (k > 0 || spec.summands == 1) return Bounded{element(operand_at(spec, k)), 0};
      double sum = 0, size = 0;
      for (std::size_t i = 0; i < static_cast<std::size_t>(spec.summands); i++) sum += element(i), size += std::abs(element(i));
      return Bounded{sum, unit * std::abs(sum) + 1e-14 * size};
    };
    const auto integer = [&](const Instruction& s) {
      if (s.op == Opcode::integer) return static_cast<Index>(element(operand_at(spec, s.a)));
      return spec.origin[static_cast<std::size_t>(s.a)] + at[static_cast<std::size_t>(s.a)];
    };
    const std::vector<Bounded> values = analysis.results(operand, integer);
    for (std::size_t k = 0; k < results; k++) {
      double &sum = sums[k][offset(inputs + k)], &error = errors[k][offset(inputs + k)];
      sum = spec.combine == Combine::max ? std::max(sum, std::abs(values[k].value)) : sum + std::abs(values[k].value);
      error = spec.combine == Combine::max ? std::max(error, values[k].error) : error + values[k].error;
    }
    std::size_t d = at.size();
    while (d > 0 && ++at[d - 1] == spec.extents[d - 1]) at[--d] = 0;
    if (d == 0) break;
  }
  for (std::size_t k = 0; k < results; k++)
    for (std::size_t i = 0; i < errors[k].size(); i++) {
      const bool infinite = !f64 && uses[inputs + k].dtype == DType::f32 && std::abs(spec.scale) * sums[k][i] > 1e38;
      errors[k][i] = infinite ? HUGE_VAL : std::abs(spec.scale) * (errors[k][i] + (2 * unit + 1e-12) * sums[k][i]) + 1e-40;
    }
  return errors;
}

// Per result of attention, per element: how far off it may be. Each score is a sum of c products, each exponential of a score that
// is off by d is wrong by a part d of itself, and results are sums of such.
std::vector<Image> attention_bounds(const LawCase& one, bool f64) {
  const KernelSpec& spec = one.spec;
  const Roles& e = spec.roles;
  const bool forward = spec.pass == PassKind::forward;
  const double unit = f64 ? 0x1p-53 : 0x1p-24, function = f64 ? 0x1p-49 : kFunction;
  const auto real = [](Index v) { return static_cast<double>(v); };
  const auto in = [&](std::size_t operand, Index i) { return one.images[operand][static_cast<std::size_t>(i)]; };
  const auto sizes = [&](std::size_t a, Index i, std::size_t b, Index j) {
    double sum = 0;
    for (Index c = 0; c < e.c; c++) sum += std::abs(in(a, i * e.c + c) * in(b, j * e.c + c));
    return sum;
  };
  // Of an operand with the size of a head: which of its vectors.
  const auto vector_of = [&](Index g, Index i, Index count) { return (g / spec.heads * count + i) * spec.heads + g % spec.heads; };
  const auto size = [](Index n) { return static_cast<std::size_t>(n); };
  std::array<Image, 3> bounds{Image(size(e.g * e.n * e.c)), Image(size(forward ? e.g * e.n : e.g * e.f * e.c)),
                              Image(size(e.g * e.f * e.c))};
  for (Index g = 0; g < e.g; g++)
    for (Index i = 0; i < e.n; i++) {
      const Index query = vector_of(g, i, e.n), row = g * e.n + i;
      std::vector<double> scores;
      std::vector<Index> keys;
      double most = 0, sum = 0, off = 0;
      for (Index j = 0; j < keys_of(spec, i); j++) {
        if (spec.share > 0 && in(forward ? 3 : 6, g / spec.share * e.f + j) <= 0) continue;
        const Index key = vector_of(g, j, e.f);
        double score = 0;
        for (Index c = 0; c < e.c; c++) score += spec.scale * in(0, query * e.c + c) * in(1, key * e.c + c);
        keys.push_back(key);
        scores.push_back(score);
        most = std::max(most, std::abs(score));
        off = std::max(off, (real(e.c) + 4) * unit * std::abs(spec.scale) * sizes(0, query, 1, key));
      }
      const double lse = forward ? 0 : in(4, row), part = off + 2 * unit * (most + std::abs(lse)) + function;
      for (const double s : scores) sum += std::exp(s);
      for (std::size_t k = 0; k < keys.size(); k++) {
        const Index key = keys[k];
        const double weight = forward ? std::exp(scores[k]) / sum : std::exp(scores[k] - lse),
                     terms = (real(e.c) + real(forward ? e.f : std::max(e.n, e.f)) + 16) * unit,
                     slope = forward ? 0 : std::abs(spec.scale) * weight * (sizes(3, query, 2, key) + std::abs(in(5, row)));
        for (Index c = 0; c < e.c; c++) {
          const Index at_query = query * e.c + c, at_key = key * e.c + c;
          if (forward) {
            bounds[0][size(at_query)] += 2 * weight * (3 * part + terms) * std::abs(in(2, at_key));
            continue;
          }
          bounds[0][size(at_query)] += 2 * slope * (part + terms) * std::abs(in(1, at_key));
          bounds[1][size(at_key)] += 2 * slope * (part + terms) * std::abs(in(0, at_query));
          bounds[2][size(at_key)] += 2 * weight * (part + terms) * std::abs(in(3, at_query));
        }
      }
      if (forward && !keys.empty())
        bounds[1][size(row)] = 2 * part + (real(e.f) + 8) * unit + (unit + function) * (1 + std::abs(std::log(sum)));
    }
  std::vector<Image> out;
  for (std::size_t r = 0; r < 3; r++)
    if ((spec.made >> r & 1) != 0) {
      out.push_back(std::move(bounds[r]));
      for (double& b : out.back()) b += 1e-40;
    }
  return out;
}

// Operands in bf16: of a contraction all but a bias, and every other one's result; of a map every other one, all where one is the
// result.
void store_in_bf16(LawCase& one, int number) {
  KernelSpec& spec = one.spec;
  if (spec.op != KernelOp::map) {
    spec.dtype = DType::bf16;
    if (!is_pool(spec.op) && number % 2 == 0) spec.result = DType::bf16;
  } else {
    for (std::size_t i = 0; i < spec.operands.size(); i++)
      if (spec.operands[i].dtype == DType::f32 && (one.options.alias >= 0 || (i + static_cast<std::size_t>(number)) % 2 == 0))
        spec.operands[i].dtype = DType::bf16;
  }
  const std::vector<OperandUse> uses = operands_of(spec);
  for (std::size_t i = 0; i < uses.size(); i++)
    if (uses[i].dtype == DType::bf16) each(one.images[i], [](double v) { return static_cast<double>(Bf16(v)); });
}

std::string numbers(const std::vector<Index>& list) {
  std::ostringstream text;
  for (std::size_t i = 0; i < list.size(); i++) text << (i == 0 ? "[" : " ") << list[i];
  return list.empty() ? "[]" : text.str() + "]";
}

std::string describe(const LawCase& one) {
  std::string text = summary(one.spec);
  if (one.spec.op == KernelOp::conv2d || one.spec.op == KernelOp::max_pool2d || one.spec.op == KernelOp::avg_pool2d)
    text += " p" + std::to_string(one.spec.roles.p) + " q" + std::to_string(one.spec.roles.q);
  if (one.spec.op != KernelOp::map) return text;
  text += " " + to_text(one.spec.formula);
  text += " strides";
  for (const MapOperand& operand : one.spec.operands)
    text += " " + std::string(operand.dtype == DType::f32 ? "" : to_string(operand.dtype)) + numbers(operand.strides);
  std::ostringstream more;
  more << " scale " << one.spec.scale << " origin " << numbers(one.spec.origin);
  if (one.options.alias >= 0) more << " onto operand " << one.options.alias;
  return text + more.str();
}

std::string differs(std::size_t operand, std::size_t at, double got, double expected, double bound) {
  std::ostringstream text;
  text.precision(9);
  text << "operand " << operand << " element " << at << " in memory: " << got << ", the reference has " << expected << ", bound "
       << bound;
  return text.str();
}

// "" or what is wrong.
std::string compare(Backend& backend, Backend& reference, const LawCase& one, LawMode mode,
                    NanSpread spreads = NanSpread::refused) {
  const std::vector<Image> got = run_kernel(backend, one.spec, one.images, one.options);
  LawCase truth = one;
  truth.spec = in_f64(one.spec);
  truth.options.implementation.clear();
  const std::vector<Image> expected = run_kernel(reference, truth.spec, truth.images, truth.options);
  const bool map = one.spec.op == KernelOp::map, f64 = one.spec.dtype == DType::f64;
  const std::vector<OperandUse> uses = operands_of(one.spec);
  std::vector<Image> bounds(uses.size());
  if (one.spec.op == KernelOp::attention || (map && mode == LawMode::tolerance)) {
    const std::vector<Image> of_results = map ? map_bounds(one, f64) : attention_bounds(one, f64);
    std::copy(of_results.begin(), of_results.end(), bounds.end() - static_cast<std::ptrdiff_t>(of_results.size()));
  } else if (!map) {
    const LawCase of_magnitude = magnitude_of(truth);
    const Image magnitudes = run_kernel(reference, of_magnitude.spec, of_magnitude.images).back();
    for (const double magnitude : magnitudes) {
      if (mode == LawMode::exact && std::isfinite(magnitude) && magnitude >= kExactBelow)
        return "the law is wrong: a partial sum may reach " + std::to_string(magnitude);
      bounds.back().push_back(mode == LawMode::exact ? 0 : bound_of(one.spec, magnitude));
    }
  }
  for (std::size_t i = 0; i < uses.size(); i++) {
    const Image& limit = static_cast<int>(i) == one.options.alias ? bounds.back() : bounds[i];
    for (std::size_t j = 0; j < expected[i].size(); j++) {
      const double a = got[i][j], b = expected[i][j];
      if (a == b || (std::isnan(a) && (std::isnan(b) || spreads == NanSpread::accepted))) continue;
      double bound = j < limit.size() ? limit[j] : 0;
      if (uses[i].dtype == DType::bf16) bound += 0x1p-8 * (std::abs(b) + bound);
      if (!(std::abs(a - b) <= bound)) return differs(i, j, a, b, bound);
    }
  }
  return "";
}

// The same for kernels that may fail.
std::string compared(Backend& backend, Backend& reference, const LawCase& one, LawMode mode,
                     NanSpread spreads = NanSpread::refused) {
  try {
    return compare(backend, reference, one, mode, spreads);
  } catch (const std::exception& error) {
    return error.what();
  }
}

// What is wrong with each implementation that the backend has to choose from, by name ("" where there is no choice).
std::map<std::string, std::string> compare_all(Backend& backend, Backend& reference, LawCase one, LawMode mode) {
  std::vector<std::string> choices = backend.implementations(one.spec);
  if (choices.empty()) choices = {""};
  std::map<std::string, std::string> out;
  for (const std::string& name : choices) {
    one.options.implementation = name;
    if (std::string wrong = compared(backend, reference, one, mode); !wrong.empty()) out[name] = std::move(wrong);
  }
  return out;
}

// After a kernel has accessed memory that it does not have, every call to its device fails.
bool is_lost(Backend& backend) {
  DeviceMemory* const memory = backend.device_memory();
  if (memory == nullptr) return false;
  try {
    float value = 0;
    const auto block = memory->allocate(sizeof value);
    copy_and_wait(*memory, block.get(), &value, sizeof value);
  } catch (const std::exception&) {
    return true;
  }
  return false;
}

// A convolution with small integers in every operand, and in x one NaN.
LawCase case_with_nan(const Roles& roles, Index padding, bool bias, const Formula& epilogue) {
  LawCase one;
  one.spec.roles = roles;
  one.spec.padding.fill(padding);
  one.spec.x_format = one.spec.w_format = one.spec.y_format = Format::channels_last;
  one.spec.bias = bias;
  one.spec.epilogue = epilogue;
  for (const OperandUse& use : operands_of(one.spec)) {
    one.images.emplace_back();
    for (Index i = 0; use.read && i < use.elements; i++) one.images.back().push_back(static_cast<double>(i * 7 % 9 - 4));
  }
  one.images.front()[one.images.front().size() / 2] = std::numeric_limits<double>::quiet_NaN();
  return one;
}

// "conv2d backward_filter f32": failures of one kind mostly have one cause.
std::string kind_of(const KernelSpec& spec) {
  std::string kind = name_of(spec.op);
  if (spec.op != KernelOp::map)
    return kind + " " + name_of(spec.pass) + " " + to_string(spec.dtype) + (spec.result == DType::bf16 ? " to bf16" : "");
  return kind +
         (spec.combine == Combine::set   ? ""
          : spec.combine == Combine::add ? " add"
                                         : " max") +
         (is_wide(spec) ? " wide" : "");
}

}  // namespace

std::string supports_law(Backend& backend, std::uint64_t seed, int cases) {
  std::mt19937_64 random(seed);
  const auto in = [&](int least, int most) { return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1)); };
  int possible = 0, impossible = 0;
  for (int number = 0; number < cases; number++) {
    KernelSpec spec = law_case(seed, number, number % 2 == 0 ? LawMode::exact : LawMode::tolerance).spec;
    if (number % 5 == 0) spec = in_f64(spec);
    if (number % 7 == 0 && spec.op != KernelOp::map) spec.dtype = DType::i32;
    if (number % 6 == 0 && spec.op != KernelOp::map) spec.dtype = DType::bf16;
    if (number % 4 == 0) {  // a map of many operands or results
      const int operands = in(1, kMostOperands), results = in(1, kMostOperands);
      std::vector<Value> values;
      for (int k = 0; k < results; k++) values.push_back(operand(k % operands) + static_cast<double>(k));
      values.front() = values.front() * operand(operands - 1);
      spec = {.op = KernelOp::map, .formula = formula(values)};
      spec.summands = in(0, 2) == 0 ? in(2, 70) : 1;
      spec.extents = {3, 5};
      spec.operands.assign(input_count(spec) + static_cast<std::size_t>(results), {DType::f32, {5, 1}});
    }
    if (spec.op == KernelOp::map && number % 3 == 0)
      for (int more = in(0, 20 - static_cast<int>(spec.extents.size())); more > 0; more--) {
        spec.extents.push_back(in(1, 3));
        for (std::size_t i = 0; i < spec.operands.size(); i++)
          spec.operands[i].strides.push_back(i < input_count(spec) && is_scalar(spec, i) ? 0 : 101 * more + 7);
        if (!spec.origin.empty()) spec.origin.push_back(0);
      }
    std::string why;
    try {
      backend.compile(spec);
    } catch (const std::exception& error) {
      why = error.what();
    }
    (why.empty() ? possible : impossible)++;
    if (backend.supports(spec) != why.empty())
      return "case " + std::to_string(number) + ", " + summary(spec) + ": " +
             (why.empty() ? "compiled, but not supported" : "supported, but " + why);
  }
  return possible > 0 && impossible > 0 ? "" : "the cases are all of one kind";
}

std::string nan_law(Backend& backend, std::vector<Formula> epilogues, NanSpread spreads) {
  if (epilogues.empty()) epilogues = {Formula{}, forward_of("relu")};
  const std::unique_ptr<Backend> reference = reference_backend();
  std::string failures;
  std::set<std::string> failed;
  for (const auto& [roles, padding] : {std::pair{Roles{2, 16, 9, 9, 32, 3, 3, 9, 9}, Index{1}},
                                       {Roles{2, 5, 8, 8, 7, 3, 3, 8, 8}, Index{1}},
                                       {Roles{2, 4, 8, 8, 6, 3, 3, 8, 8, 3}, Index{1}},
                                       {Roles{2, 1, 9, 9, 1, 3, 3, 9, 9, 32}, Index{1}},
                                       {Roles{3, 64, 6, 6, 64, 1, 1, 6, 6}, Index{0}}})
    for (const bool bias : {false, true})
      for (const Formula& epilogue : epilogues) {
        LawCase one = case_with_nan(roles, padding, bias, epilogue);
        std::vector<std::string> choices = backend.implementations(one.spec);
        if (choices.empty()) choices = {""};
        for (const std::string& name : choices) {
          one.options.implementation = name;
          const std::string wrong = compared(backend, *reference, one, LawMode::exact, spreads);
          if (!wrong.empty() && failed.insert(name).second) failures += "\n" + name + ": " + describe(one) + ": " + wrong;
        }
      }
  return failures;
}

std::string backend_law(Backend& backend, std::uint64_t seed, int cases, LawMode mode, DType dtype) {
  struct Failures {
    int count = 0;
    std::string first{};
  };
  const std::unique_ptr<Backend> reference = reference_backend();
  const char* const only = std::getenv("MOTLEY_LAW_OP");
  std::map<std::pair<std::string, std::string>, Failures> failures;  // by kind and engine
  std::map<std::string, int> cases_of;
  int failed = 0, lost_at = -1;
  for (int number = 0; number < cases && lost_at < 0; number++) {
    LawCase one = law_case(seed, number, mode);
    if (only != nullptr && name_of(one.spec.op) != std::string(only)) continue;
    if (dtype == DType::f64) one.spec = in_f64(one.spec);
    if (dtype == DType::bf16) store_in_bf16(one, number);
    const std::string kind = kind_of(one.spec);
    cases_of[kind]++;
    const std::map<std::string, std::string> wrong = compare_all(backend, *reference, one, mode);
    if (wrong.empty()) continue;
    failed++;
    if (is_lost(backend)) lost_at = number;
    for (const auto& [name, text] : wrong) {
      Failures& its = failures[{kind, name.substr(0, name.find('_'))}];
      if (its.count++ == 0)
        its.first += "\n  seed " + std::to_string(seed) + " case " + std::to_string(number) + ": " + describe(one) + ": " + name +
                     ": " + text;
    }
  }
  if (failed == 0) return "";
  std::string text = std::to_string(failed) + " of " + std::to_string(cases) + " cases break the law";
  for (const auto& [key, its] : failures)
    text += "\n" + key.first + (key.second.empty() ? "" : " by " + key.second) + ": " + std::to_string(its.count) + " of " +
            std::to_string(cases_of[key.first]) + ", the first:" + its.first;
  if (lost_at >= 0)
    text += "\nthe device is lost since case " + std::to_string(lost_at) + ": " + std::to_string(cases - lost_at - 1) +
            " cases not run";
  return text;
}

}  // namespace motley::testing
