// SPDX-License-Identifier: Apache-2.0
// Layout law, pick law and exact law of what makes rows and columns more: any cut equals the unsharded network, inside a scale's
// copies too; and what it computes, by PyTorch's formulas.
#include <motley/error.h>
#include <motley/ops.h>
#include <motley/state.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "base/random.h"
#include "tests/support/op_laws.h"
#include "tests/support/random_network.h"
#include "tests/support/run_plan.h"

using namespace motley;
using namespace motley::law;

namespace {

// torch.nn.functional.interpolate(mode="bilinear", align_corners=False): what a row of the result reads, and how much of each.
struct Between {
  Index low = 0, high = 0;
  double part = 0;  // of `high`
};
Between between(Index p, Index scale, Index size) {
  const double at = std::max((static_cast<double>(p) + 0.5) / static_cast<double>(scale) - 0.5, 0.0);
  const auto low = static_cast<Index>(at);
  return {low, std::min(low + 1, size - 1), at - static_cast<double>(low)};
}

}  // namespace

TEST_CASE("layout law: upsampling, one or two axes, any parts", "[law]") {
  check_layouts(860000, 150, with_upsampling, {.often = 0.4, .spatial = 0.5, .nested = 0.1, .jagged = 0.15});
}

TEST_CASE("pick law: every legal pick of upsampling", "[law]") {
  check_picks(870000, 150, with_upsampling, {.often = 0.45, .nested = 0.1, .jagged = 0.1});
}

TEST_CASE("exact law: upsampling through the kernels, formats and exchanges users run, bit for bit", "[law]") {
  check_exact(880000, 100, with_upsampling, {.often = 0.5, .spatial = 0.4, .jagged = 0.1});
}

TEST_CASE("upsample2d, by PyTorch's formula", "[law]") {
  constexpr Index kBatch = 2, kChannels = 3;
  for (const auto& [rows, cols] : {std::pair<Index, Index>{5, 4}, {1, 2}})
    for (const Index scale : {1, 2, 3, 4, 5, 8})
      for (const Upsampling mode : {Upsampling::nearest, Upsampling::bilinear}) {
        const Shape shape({{"batch", kBatch}, {"channels", kChannels}, {"rows", rows}, {"cols", cols}});
        Graph g;
        const Tensor y = upsample2d(g.input("x", shape), {.scale = scale, .mode = mode, .name = "u"});
        CHECK(y.shape() == Shape({shape[0], shape[1], {"rows", rows * scale}, {"cols", cols * scale}}));
        const Tensor z = dense(y, {.in = {shape[1]}, .out = {{"one", 1}}, .bias = false, .name = "d"});
        const Step step = training(sum(mul(z, z)), Sgd{.learning_rate = 0});
        const LayoutRules rules{{Dim{"rows", rows}, "all", Sizes{{rows / 2, 0, rows - rows / 2}}}};
        const Outcome out = run_plan(balance(step, mesh_of({{"all", 3}}), rules, {}, {.dtype = DType::f64}), {.steps = 1});
        const RandomStream stream(RunOptions{}.seed, "x");
        const std::vector<double>& weight = out.weights.at("d.weight");
        double loss = 0;
        for (Index n = 0; n < kBatch; n++)
          for (Index p = 0; p < rows * scale; p++)
            for (Index q = 0; q < cols * scale; q++) {
              double sum = 0;
              for (Index c = 0; c < kChannels; c++) {
                const auto x = [&](Index h, Index w) {
                  return 2 * stream.uniform(static_cast<std::uint64_t>(((n * kChannels + c) * rows + h) * cols + w)) - 1;
                };
                const Between h = between(p, scale, rows), w = between(q, scale, cols);
                const double value = mode == Upsampling::nearest
                                         ? x(p / scale, q / scale)
                                         : (1 - h.part) * ((1 - w.part) * x(h.low, w.low) + w.part * x(h.low, w.high)) +
                                               h.part * ((1 - w.part) * x(h.high, w.low) + w.part * x(h.high, w.high));
                sum += weight[static_cast<std::size_t>(c)] * value;
              }
              loss += sum * sum;
            }
        INFO(rows << " x " << cols << ", scale " << scale << (mode == Upsampling::nearest ? " nearest" : " bilinear"));
        CHECK(out.loss == Approx(loss).epsilon(1e-12));
      }
}

TEST_CASE("conv_transpose2d, by loops", "[law]") {
  struct Form {
    Index groups, window, stride, dilation, before, after, more;
  };
  constexpr Index kBatch = 2, kIn = 4, kOut = 6, kRows = 5, kCols = 3;
  for (const Form& f : {Form{1, 2, 2, 1, 0, 0, 0},
                        {1, 3, 1, 1, 1, 1, 0},
                        {2, 3, 2, 1, 1, 0, 1},
                        {2, 2, 3, 1, 0, 1, 2},
                        {1, 3, 1, 2, 2, 1, 1},
                        {2, 1, 2, 1, 0, 0, 1},
                        {1, 4, 2, 2, 3, 2, 0}}) {
    Graph g;
    const Tensor x = g.input("x", {{"batch", kBatch}, {"in", kIn}, {"rows", kRows}, {"cols", kCols}});
    const Tensor y = conv_transpose2d(x, {.out = {"out", kOut},
                                          .window = {f.window, 2},
                                          .stride = {f.stride, 1},
                                          .dilation = {f.dilation, 1},
                                          .padding = {{f.before, f.after}, {0, 1}},
                                          .output_padding = {f.more, 0},
                                          .groups = f.groups,
                                          .name = "t"});
    const Index made = (kRows - 1) * f.stride - f.before - f.after + (f.window - 1) * f.dilation + 1 + f.more;
    CHECK(y.shape() == Shape{{"batch", kBatch}, {"out", kOut}, {"rows", made}, {"cols", kCols}});
    const Step step = training(sum(mul(y, y)), Sgd{.learning_rate = 0});
    const LayoutRules rules{{Dim{"rows", kRows}, "all", Sizes{{2, 0, 3}}}};
    const Outcome out = run_plan(balance(step, mesh_of({{"all", 3}}), rules, {}, {.dtype = DType::f64}), {.steps = 1});
    const RandomStream stream(RunOptions{}.seed, "x");
    const std::vector<double>&weight = out.weights.at("t.weight"), &bias = out.weights.at("t.bias");
    std::vector<double> values;
    for (Index n = 0; n < kBatch; n++)
      for (Index o = 0; o < kOut; o++)
        values.insert(values.end(), static_cast<std::size_t>(made * (kCols + 1)), bias[static_cast<std::size_t>(o)]);
    for (Index n = 0; n < kBatch; n++)
      for (Index i = 0; i < kIn; i++)
        for (Index o = i * f.groups / kIn * (kOut / f.groups), k = 0; k < kOut / f.groups; k++)
          for (Index p = 0; p < kRows; p++)
            for (Index q = 0; q < kCols; q++)
              for (Index r = 0; r < f.window; r++)
                for (Index s = 0; s < 2; s++) {
                  const Index h = p * f.stride - f.before + r * f.dilation;
                  if (h < 0 || h >= made) continue;
                  const double in = 2 * stream.uniform(static_cast<std::uint64_t>(((n * kIn + i) * kRows + p) * kCols + q)) - 1;
                  values[static_cast<std::size_t>(((n * kOut + o + k) * made + h) * (kCols + 1) + q + s)] +=
                      in * weight[static_cast<std::size_t>(((i * (kOut / f.groups) + k) * f.window + r) * 2 + s)];
                }
    double loss = 0;
    for (std::size_t e = 0; e < values.size(); e++)
      if (e % (kCols + 1) != kCols) loss += values[e] * values[e];  // a column is cut off
    INFO("window " << f.window << " stride " << f.stride << " dilation " << f.dilation << " groups " << f.groups);
    CHECK(out.loss == Approx(loss).epsilon(1e-12));
  }
}

TEST_CASE("a transposed convolution starts from the same values in a training and in an inference") {
  Graph g;
  const Tensor x = g.input("x", {{"batch", 2}, {"in", 3}, {"rows", 2}, {"cols", 2}});
  const Tensor y = conv_transpose2d(x, {.out = {"out", 5}, .window = 2, .stride = 2, .name = "t"});
  const Mesh mesh = mesh_of({{"one", 1}});
  const auto weights = [&](const Step& step) {
    return State(balance(step, mesh, {}, {}, {.dtype = DType::f64}), 0, 7).shard("t.weight").front().values;
  };
  const std::vector<double> trained = weights(training(sum(y), Sgd{.learning_rate = 0}));
  CHECK(trained.size() == 3 * 5 * 2 * 2);
  CHECK(trained == weights(inference({y})));
  for (const double w : trained) CHECK(std::abs(w) <= std::sqrt(6.0 / (5 * 2 * 2)));
}
