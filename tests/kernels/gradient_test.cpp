// SPDX-License-Identifier: Apache-2.0
// The gradient law at kernel level: central differences of the f64 reference's forward against its backward passes.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <numeric>

#include "kernels/operands.h"
#include "tests/support/formulas.h"
#include "tests/support/kernel_runner.h"

using namespace motley;
using namespace motley::testing;

namespace {

const std::unique_ptr<Backend> kReference = reference_backend();

Image run(const KernelSpec& spec, std::vector<Image> images) {
  return result_of(*kReference, spec, std::move(images));
}

// Numbers in -1..1 without order, the same in every run.
Image numbers(std::size_t count, double seed) {
  Image image(count);
  for (std::size_t i = 0; i < count; i++) image[i] = std::sin(12.9898 * static_cast<double>(i + 1) + 78.233 * seed);
  return image;
}

double dot(const Image& a, const Image& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// d loss / d at[i] = (loss(at + step) - loss(at - step)) / (2 step)
void check_gradient(const std::function<double(const Image&)>& loss, const Image& at, const Image& gradient) {
  constexpr double kStep = 1e-5;
  REQUIRE(gradient.size() == at.size());
  for (std::size_t i = 0; i < at.size(); i++) {
    Image up = at, down = at;
    up[i] += kStep;
    down[i] -= kStep;
    CHECK(gradient[i] == Approx((loss(up) - loss(down)) / (2 * kStep)).margin(1e-8).epsilon(1e-8));
  }
}

KernelSpec with_pass(KernelSpec spec, PassKind pass) {
  spec.pass = pass;
  return spec;
}

std::size_t elements(const KernelSpec& spec, std::size_t operand) {
  return static_cast<std::size_t>(operands_of(spec)[operand].elements);
}

// y = op(x, w): both gradients of dot(g, y).
void check_bilinear(const KernelSpec& forward) {
  INFO(summary(forward));
  const Image x = numbers(elements(forward, 0), 1), w = numbers(elements(forward, 1), 2), g = numbers(elements(forward, 2), 3);
  check_gradient(
      [&](const Image& v) {
        return dot(g, run(forward, {v, w}));
      },
      x, run(with_pass(forward, PassKind::backward_data), {g, w}));
  check_gradient(
      [&](const Image& v) {
        return dot(g, run(forward, {x, v}));
      },
      w, run(with_pass(forward, PassKind::backward_filter), {x, g}));
}

KernelSpec conv(const Roles& roles, std::array<Index, 2> stride, std::array<Index, 2> dilation, std::array<Index, 4> padding) {
  KernelSpec spec;
  spec.dtype = DType::f64;
  spec.roles = roles;
  spec.stride = stride;
  spec.dilation = dilation;
  spec.padding = padding;
  return spec;
}

}  // namespace

TEST_CASE("gradient: conv2d") {
  check_bilinear(conv({.n = 2, .c = 2, .h = 5, .w = 4, .f = 3, .r = 3, .s = 2, .p = 3, .q = 3}, {1, 1}, {1, 1}, {0, 0, 0, 0}));
  check_bilinear(conv({.n = 1, .c = 2, .h = 6, .w = 5, .f = 2, .r = 3, .s = 3, .p = 3, .q = 3}, {2, 2}, {1, 1}, {1, 0, 1, 1}));
  check_bilinear(conv({.n = 1, .c = 1, .h = 7, .w = 6, .f = 2, .r = 2, .s = 3, .p = 4, .q = 2}, {2, 3}, {3, 2}, {2, 1, 1, 1}));
  check_bilinear(conv({.n = 1, .c = 2, .h = 6, .w = 6, .f = 1, .r = 2, .s = 2, .p = 3, .q = 4}, {1, 1}, {1, 1}, {-1, -1, -1, 0}));
}

TEST_CASE("gradient: dense") {
  KernelSpec spec;
  spec.op = KernelOp::dense;
  spec.dtype = DType::f64;
  spec.roles = {.n = 3, .c = 5, .f = 4};
  check_bilinear(spec);
}

TEST_CASE("gradient: attention") {
  for (const bool causal : {false, true})
    for (const bool masked : {false, true}) {
      KernelSpec spec;
      spec.op = KernelOp::attention;
      spec.dtype = DType::f64;
      spec.roles = {.n = 4, .c = 3, .f = 5, .g = 4};
      spec.scale = 0.7;
      spec.causal = causal;
      if (causal) spec.origin = {2, 0};
      spec.made = kMakesOutput | kMakesLogSum;
      if (masked) spec.share = 2;
      std::vector<Image> at{numbers(48, 1), numbers(60, 2), numbers(60, 3)};
      const Image mask{1, 0, 1, 1, -1, 0, 0, 1, 0, 1}, g = numbers(48, 4);
      const auto forward = [&](std::vector<Image> in) {
        if (masked) in.push_back(mask);
        in.resize(in.size() + 2);
        std::vector<Image> all = run_kernel(*reference_backend(), spec, in);
        return std::pair(all[all.size() - 2], all.back());
      };
      const auto [y, lse] = forward(at);
      Image dots;
      for (std::size_t i = 0; i < 16; i++)
        dots.push_back(std::inner_product(g.begin() + static_cast<std::ptrdiff_t>(3 * i),
                                          g.begin() + static_cast<std::ptrdiff_t>(3 * i + 3),
                                          y.begin() + static_cast<std::ptrdiff_t>(3 * i), 0.0));
      KernelSpec backward = with_pass(spec, PassKind::backward_data);
      backward.made = kMakesQuery | kMakesKey | kMakesValue;
      std::vector<Image> in{at[0], at[1], at[2], g, lse, dots};
      if (masked) in.push_back(mask);
      in.resize(in.size() + 3);
      const std::vector<Image> all = run_kernel(*reference_backend(), backward, in);
      for (std::size_t k = 0; k < 3; k++) {
        INFO(summary(spec) << ", operand " << k);
        check_gradient(
            [&](const Image& v) {
              std::vector<Image> moved = at;
              moved[k] = v;
              return dot(g, forward(moved).first);
            },
            at[k], all[all.size() - 3 + k]);
      }
    }
}

TEST_CASE("gradient: pools") {
  for (const KernelOp op : {KernelOp::max_pool2d, KernelOp::avg_pool2d}) {
    KernelSpec spec = conv({.n = 2, .c = 3, .h = 6, .w = 5, .r = 3, .s = 2, .p = 4, .q = 3}, {2, 2}, {1, 1}, {2, 1, 1, 0});
    spec.op = op;
    INFO(summary(spec));
    const Image x = numbers(elements(spec, 0), 1), g = numbers(elements(spec, 1), 2);
    const KernelSpec backward = with_pass(spec, PassKind::backward_data);
    check_gradient([&](const Image& v) { return dot(g, run(spec, {v})); }, x,
                   op == KernelOp::max_pool2d ? run(backward, {g, x}) : run(backward, {g}));
  }
}

TEST_CASE("gradient: pointwise ops") {
  for (const std::string& op : Pointwise::names()) {
    const KernelSpec forward = in_f64(map_of(forward_of(op), {20}, {{1}, {1}}));
    const KernelSpec backward = in_f64(map_of(gradient_of(op), {20}, {{1}, {1}, {1}}));
    INFO(op);
    const Image x = numbers(20, 1), g = numbers(20, 2);
    const bool from_y = op == "relu" || op == "sigmoid" || op == "tanh" || op == "elu";
    check_gradient([&](const Image& v) { return dot(g, run(forward, {v})); }, x,
                   run(backward, {g, from_y ? run(forward, {x}) : x}));
  }
}

TEST_CASE("gradient: softmax and cross entropy, four rows of five classes") {
  const auto part = [](const std::string& what, std::vector<Index> extents, std::vector<std::vector<Index>> strides, int label) {
    KernelSpec spec = in_f64(map_of(softmax_formula(what), std::move(extents), strides));
    if (label >= 0) {
      spec.operands[static_cast<std::size_t>(label)].dtype = DType::i32;
      spec.origin = {0, 0};
    }
    return spec;
  };
  const std::vector<Index> all{5, 1}, row{1, 0};
  const Image labels{0, 4, 2, 2}, g = numbers(4, 3);
  KernelSpec max = in_f64(copy_of({4, 5}, {all, row}));
  max.combine = Combine::max;
  KernelSpec sum = part("sum_exp", {4, 5}, {all, row, row, row}, 2);
  KernelSpec pick = part("pick_label", {4, 5}, {all, row, row}, 1);
  sum.combine = pick.combine = Combine::add;
  const KernelSpec entropy = part("forward", {4}, {{1}, {1}, {1}, {1}}, -1);
  const KernelSpec gradient = part("backward_data", {4, 5}, {all, row, row, row, row, row, all}, 4);
  const auto loss = [&](const Image& l) {
    const Image m = run(max, {l});
    return dot(g, run(entropy, {m, run(sum, {l, m, labels}), run(pick, {l, labels})}));
  };
  const Image l = numbers(20, 1), m = run(max, {l});
  check_gradient(loss, l, run(gradient, {l, m, run(sum, {l, m, labels}), run(pick, {l, labels}), labels, g}));
}
