// SPDX-License-Identifier: Apache-2.0
// Layout law, pick law and exact law of maps by a formula, and losses that are made of them, by loops.
#include <motley/ops.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "base/random.h"
#include "tests/support/op_laws.h"
#include "tests/support/run_plan.h"

using namespace motley;
using namespace motley::law;

TEST_CASE("layout law: maps by a formula, one or two axes, any parts", "[law]") {
  check_layouts(850000, 150, with_maps, {.often = 0.4, .spatial = 0.5, .nested = 0.1, .jagged = 0.15});
}

TEST_CASE("pick law: every legal pick of maps by a formula", "[law]") {
  check_picks(853000, 150, with_maps, {.often = 0.45, .nested = 0.1, .jagged = 0.1});
}

TEST_CASE("exact law: maps by a formula through the kernels, formats and exchanges users run, bit for bit", "[law]") {
  check_exact(856000, 100, with_maps, {.often = 0.5, .spatial = 0.4, .jagged = 0.1});
}

namespace {

constexpr std::size_t kBatch = 7, kPixels = 6;

struct Masks {
  Graph graph{};
  Tensor logits{}, mask{};
  Masks() {
    const Dim batch{"batch", kBatch}, in{"in", 3}, pixels{"pixels", kPixels};
    logits = dense(graph.input("x", {batch, in}), {.in = {in}, .out = {pixels}, .name = "d"});
    mask = graph.input("mask", logits.shape());
  }
};

// Of one step on three ranks, one of which has no samples.
Outcome outcome_of(const Tensor& loss) {
  const LayoutRules rules{{Dim{"batch", kBatch}, "all", Sizes{{2, 0, 5}}}};
  return run_plan(balance(training(loss, Sgd{.learning_rate = 0}), mesh_of({{"all", 3}}), rules, {}, {.dtype = DType::f64}),
                  {.steps = 1});
}
// As inputs are fed.
double number_of(const RandomStream& stream, std::size_t k) {
  return 2 * stream.uniform(k) - 1;
}

}  // namespace

TEST_CASE("a Dice loss of sums over all ranks, by loops", "[law]") {
  Masks net;
  const Tensor p = sigmoid(net.logits), y = net.mask;
  const Outcome out = outcome_of(1.0 - (2.0 * sum(p * y) + 1.0) / (sum(p) + sum(y) + 1.0));
  const RandomStream xs(RunOptions{}.seed, "x"), masks(RunOptions{}.seed, "mask");
  const std::vector<double>&weight = out.weights.at("d.weight"), &bias = out.weights.at("d.bias");
  double both = 0, all = 0, masked = 0;
  std::vector<double> slopes, labels;
  for (std::size_t n = 0; n < kBatch; n++)
    for (std::size_t k = 0; k < kPixels; k++) {
      double z = bias[k];
      for (std::size_t c = 0; c < 3; c++) z += weight[k * 3 + c] * number_of(xs, n * 3 + c);
      const double q = 1 / (1 + std::exp(-z)), label = number_of(masks, n * kPixels + k);
      both += q * label, all += q, masked += label;
      slopes.push_back(q * (1 - q));
      labels.push_back(label);
    }
  const double above = 2 * both + 1, below = all + masked + 1;
  CHECK(out.loss == Approx(1 - above / below).epsilon(1e-11));
  for (std::size_t k = 0; k < kPixels; k++) {
    double expected = 0;
    for (std::size_t n = 0; n < kBatch; n++) {
      const std::size_t i = n * kPixels + k;
      expected += slopes[i] * (above / below - 2 * labels[i]) / below;
    }
    CHECK(out.gradients.at("d.bias")[k] == Approx(expected).epsilon(1e-9).margin(1e-12));
  }
}

TEST_CASE("a focal loss of softmax_cross_entropy, by loops", "[law]") {
  Graph g;
  const Dim batch{"batch", kBatch}, in{"in", 3}, classes{"classes", 4};
  const Tensor logits = dense(g.input("x", {batch, in}), {.in = {in}, .out = {classes}, .name = "d"});
  const Tensor each = softmax_cross_entropy(logits, g.input("label", {batch}, DType::i32), classes);
  const Outcome out = outcome_of(mean(pow(1.0 - exp(-each), 2.0) * each));
  const RandomStream labels(RunOptions{}.seed, "label");
  double sum = 0;
  for (std::size_t n = 0; n < kBatch; n++) {
    double all = 0;
    for (std::size_t c = 0; c < 4; c++) all += std::exp(out.logits[n * 4 + c]);
    const double p = std::exp(out.logits[n * 4 + labels.bits(n) % 4U]) / all;
    sum += -(1 - p) * (1 - p) * std::log(p);
  }
  CHECK(out.loss == Approx(sum / kBatch).epsilon(1e-12));
}
