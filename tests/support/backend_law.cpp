// SPDX-License-Identifier: Apache-2.0
#include "tests/support/backend_law.h"

#include <motley/error.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <sstream>
#include <utility>

#include "kernels/kernel_names.h"
#include "kernels/operands.h"

namespace motley::testing {
namespace {

// u: half a step
double unit_of(DType dtype) {
  return dtype == DType::f64 ? 0x1p-53 : 0x1p-24;
}
constexpr double kFunction = 0x1p-19;   // sigmoid, tanh, elu, exp, log: what vendors' approximations are allowed
constexpr double kExactBelow = 0x1p24;  // integers that f32 keeps

KernelSpec in_f64(KernelSpec spec) {
  spec.dtype = DType::f64;
  for (FoldOperand& operand : spec.operands)
    if (operand.dtype == DType::f32) operand.dtype = DType::f64;
  return spec;
}

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
  spec.activation = Activation::none;
  spec.scale = std::abs(spec.scale);
  m.options.alias = -1;
  for (std::size_t i = 0; i < m.images.size(); i++)
    if (!(spec.op == KernelOp::max_pool2d && spec.pass == PassKind::backward_data && i == 1)) each(m.images[i], absolute);
  if (spec.op == KernelOp::sgd) {
    m.images[0][0] = -m.images[0][0];  // the learning rate: w + |rate v|
  } else if (spec.op == KernelOp::fold) {
    const auto copy_of = [&](std::size_t i) {
      spec.fold = FoldKind::copy;
      spec.operands = {spec.operands[i], spec.operands.back()};
      m.images = {m.images[i], {}};
    };
    if (spec.fold == FoldKind::activation_gradient) {
      copy_of(0);
      spec.scale *= 4;  // |y| <= 4 in exact mode (relu), <= 1 else: |activation'| <= 2
    } else if (spec.fold == FoldKind::cross_entropy) {
      spec.fold = FoldKind::add;
      m.images[1] = one.images[1];
      each(m.images[1], [](double s) { return std::abs(std::log(s)) + 2; });  // |h - m| <= 2
    } else if (spec.fold == FoldKind::softmax_gradient) {
      copy_of(5);
      spec.scale *= 2;  // l <= m and s >= 1: at most 1 in size
    } else if (spec.fold == FoldKind::sum_exp) {
      m.images = one.images;
    }
  }
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
    case KernelOp::fold: return real(static_cast<Index>(spec.operands.size()));
    case KernelOp::sgd: return 0;
    case KernelOp::accumulate: return 1;
  }
  return 0;
}

bool is_smooth(const KernelSpec& spec) {
  const bool bent = spec.activation == Activation::none || spec.activation == Activation::relu;
  const bool exp_or_log =
      spec.fold == FoldKind::sum_exp || spec.fold == FoldKind::cross_entropy || spec.fold == FoldKind::softmax_gradient;
  return !bent || (spec.op == KernelOp::fold && exp_or_log);
}

double bound_of(const KernelSpec& spec, double magnitude) {
  if (spec.op == KernelOp::max_pool2d && spec.pass == PassKind::forward) return 0;
  const double rounding = (terms_of(spec) + 8) * unit_of(spec.dtype) * magnitude;
  return is_smooth(spec) ? rounding + kFunction * (1 + magnitude) * std::max(1.0, std::abs(spec.scale)) : rounding;
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
  if (one.spec.op != KernelOp::fold) return text;
  text += " strides";
  for (const FoldOperand& operand : one.spec.operands)
    text += " " + std::string(operand.dtype == DType::i32 ? "i32" : "") + numbers(operand.strides);
  std::ostringstream more;
  more << " scale " << one.spec.scale << " class_dim " << one.spec.class_dim << " first_class " << one.spec.first_class;
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
std::string compare(Backend& backend, Backend& reference, const LawCase& one, LawMode mode) {
  const std::vector<Image> got = run_kernel(backend, one.spec, one.images, one.options);
  LawCase truth = one;
  truth.spec = in_f64(one.spec);
  truth.options.implementation.clear();
  const std::vector<Image> expected = run_kernel(reference, truth.spec, truth.images, truth.options);
  const LawCase of_magnitude = magnitude_of(truth);
  const std::vector<Image> magnitudes = run_kernel(reference, of_magnitude.spec, of_magnitude.images);
  const std::vector<OperandUse> uses = operands_of(one.spec);
  for (std::size_t i = 0; i < uses.size(); i++) {
    const bool written = uses[i].written || static_cast<int>(i) == one.options.alias;
    const Image& magnitude = one.spec.op == KernelOp::sgd ? magnitudes[i] : magnitudes.back();
    for (std::size_t j = 0; j < expected[i].size(); j++) {
      const double a = got[i][j], b = expected[i][j];
      if (written && mode == LawMode::exact && std::isfinite(magnitude[j]) && magnitude[j] >= kExactBelow)
        return "the law is wrong: a partial sum may reach " + std::to_string(magnitude[j]);
      if (a == b || (std::isnan(a) && std::isnan(b))) continue;
      const double bound = mode == LawMode::exact || !written ? 0 : bound_of(one.spec, magnitude[j]);
      if (!(std::abs(a - b) <= bound)) return differs(i, j, a, b, bound);
    }
  }
  return "";
}

// Every implementation that the backend has to choose from.
std::string compare_all(Backend& backend, Backend& reference, LawCase one, LawMode mode) {
  const std::vector<std::string> choices = backend.implementations(one.spec);
  if (choices.empty()) return compare(backend, reference, one, mode);
  for (const std::string& name : choices) {
    one.options.implementation = name;
    if (std::string wrong = compare(backend, reference, one, mode); !wrong.empty()) return name + ": " + wrong;
  }
  return "";
}

// A convolution with small integers in every operand, and in x one NaN.
LawCase case_with_nan(const Roles& roles, Index padding, bool bias, Activation activation) {
  LawCase one;
  one.spec.roles = roles;
  one.spec.padding.fill(padding);
  one.spec.x_format = one.spec.w_format = one.spec.y_format = Format::channels_last;
  one.spec.bias = bias;
  one.spec.activation = activation;
  for (const OperandUse& use : operands_of(one.spec)) {
    one.images.emplace_back();
    for (Index i = 0; use.read && i < use.elements; i++) one.images.back().push_back(static_cast<double>(i * 7 % 9 - 4));
  }
  one.images.front()[one.images.front().size() / 2] = std::numeric_limits<double>::quiet_NaN();
  return one;
}

}  // namespace

std::string nan_law(Backend& backend, const std::vector<Activation>& activations) {
  const std::unique_ptr<Backend> reference = reference_backend();
  std::string failures;
  std::set<std::string> failed;
  for (const auto& [roles, padding] : {std::pair{Roles{2, 16, 9, 9, 32, 3, 3, 9, 9}, Index{1}},
                                       {Roles{2, 5, 8, 8, 7, 3, 3, 8, 8}, Index{1}},
                                       {Roles{2, 4, 8, 8, 6, 3, 3, 8, 8, 3}, Index{1}},
                                       {Roles{2, 1, 9, 9, 1, 3, 3, 9, 9, 32}, Index{1}},
                                       {Roles{3, 64, 6, 6, 64, 1, 1, 6, 6}, Index{0}}})
    for (const bool bias : {false, true})
      for (const Activation activation : activations) {
        LawCase one = case_with_nan(roles, padding, bias, activation);
        std::vector<std::string> choices = backend.implementations(one.spec);
        if (choices.empty()) choices = {""};
        for (const std::string& name : choices) {
          one.options.implementation = name;
          std::string wrong;
          try {
            wrong = compare(backend, *reference, one, LawMode::exact);
          } catch (const std::exception& error) {
            wrong = error.what();
          }
          if (!wrong.empty() && failed.insert(name).second) failures += "\n" + name + ": " + describe(one) + ": " + wrong;
        }
      }
  return failures;
}

std::string backend_law(Backend& backend, std::uint64_t seed, int cases, LawMode mode, DType dtype) {
  constexpr int kShown = 5;
  const std::unique_ptr<Backend> reference = reference_backend();
  std::string failures;
  int failed = 0;
  for (int number = 0; number < cases; number++) {
    LawCase one = law_case(seed, number, mode);
    if (dtype == DType::f64) one.spec = in_f64(one.spec);
    std::string wrong;
    try {
      wrong = compare_all(backend, *reference, one, mode);
    } catch (const std::exception& error) {
      wrong = error.what();
    }
    if (!wrong.empty() && failed++ < kShown)
      failures += "\nseed " + std::to_string(seed) + " case " + std::to_string(number) + ": " + describe(one) + ": " + wrong;
  }
  return failed == 0 ? "" : std::to_string(failed) + " of " + std::to_string(cases) + " cases break the law" + failures;
}

}  // namespace motley::testing
