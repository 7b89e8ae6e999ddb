// SPDX-License-Identifier: Apache-2.0
// Layout law and pick law of norms, dropout, softmax and products by broadcast tensors: any cut of their dims equals the unsharded
// network, running statistics too; and what is random is the same under every cut and number of micro-batches.
#include <motley/error.h>
#include <motley/ops.h>
#include <motley/predictor.h>
#include <motley/program.h>
#include <motley/runtime.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <mutex>
#include <numeric>

#include "base/random.h"
#include "plan/plan_data.h"
#include "plan/planner.h"
#include "tests/support/op_laws.h"
#include "tests/support/random_network.h"
#include "tests/support/run_plan.h"

using namespace motley;
using namespace motley::law;

namespace {

Plan in_f64(const Step& step, const Mesh& mesh, const LayoutRules& rules = {}) {
  return balance(step, mesh, rules, {}, {.dtype = DType::f64});
}

}  // namespace

TEST_CASE("layout law: norms, one or two axes, any parts", "[law]") {
  check_layouts(810000, 200, with_norms, {.often = 0.5, .spatial = 0.4, .nested = 0.1, .jagged = 0.15});
}

TEST_CASE("pick law: every legal pick of norms", "[law]") {
  check_picks(820000, 200, with_norms, {.often = 0.45, .nested = 0.1, .jagged = 0.1});
}

TEST_CASE("layout law: a batch norm's statistics are those of the complete batch, by hand", "[law]") {
  const Dim batch{"batch", 6}, in{"in", 2}, f{"f", 3};
  Graph g;
  const Tensor x = g.input("x", {batch, in});
  const Tensor y = batch_norm(dense(x, {.out = {f}, .name = "d"}), {.momentum = 0.25, .epsilon = 1e-3, .name = "norm"});
  const Step step = training(sum(mul(y, y)), Sgd{.learning_rate = 0});
  CHECK(step.parameters() == std::vector<std::string>{"d.weight", "d.bias", "norm.weight", "norm.bias"});
  const Outcome one = run_plan(in_f64(step, mesh_of({{"one", 1}})), {.steps = 1});
  const Outcome cut = run_plan(in_f64(step, mesh_of({{"all", 3}}), LayoutRules{{batch, "all", Sizes{{4, 0, 2}}}}), {.steps = 1});
  CHECK(difference(cut, one) < 1e-13);
  // Per filter: batch * (weight^2 var / (var + epsilon) + bias^2), as the normalised values' mean is 0.
  const std::vector<double>&mean = one.weights.at("norm.running_mean"), &variance = one.weights.at("norm.running_var");
  double sum = 0;
  for (std::size_t k = 0; k < 3; k++) {
    CHECK(std::abs(mean[k]) > 1e-3);
    const double biased = (variance[k] - 0.75) / 0.25 * 5 / 6;  // it began at 1
    const double weight = one.weights.at("norm.weight")[k], bias = one.weights.at("norm.bias")[k];
    sum += 6 * (weight * weight * biased / (biased + 1e-3) + bias * bias);
  }
  CHECK(one.loss == Approx(sum).epsilon(1e-12));
  CHECK(one.gradients.count("norm.running_mean") == 0);
}

TEST_CASE("layout law: with a momentum of 1 running statistics are the last micro-batch's", "[law]") {
  for (const Index micro_batches : {Index{1}, Index{2}}) {
    const Dim batch{"batch", 6}, in{"in", 2};
    Graph g;
    const Tensor x = dense(g.input("x", {batch, in}), {.out = {Dim{"f", 3}}, .name = "d"});
    const Step step =
        training(sum(batch_norm(x, {.momentum = 1, .name = "norm"})), Sgd{.learning_rate = 0}, {.accumulate = micro_batches});
    const Outcome one = run_plan(in_f64(step, mesh_of({{"one", 1}})), {.steps = 2});
    const Outcome cut = run_plan(in_f64(step, mesh_of({{"all", 3}}), LayoutRules{{batch, "all", Sizes{{4, 0, 2}}}}), {.steps = 2});
    CHECK(difference(cut, one) < 1e-13);
    for (const double variance : one.weights.at("norm.running_var")) CHECK(variance != 1);
  }
}

TEST_CASE("layout law: with a momentum of 0 running statistics stay as they are", "[law]") {
  for (const Index micro_batches : {Index{1}, Index{2}}) {
    const Dim batch{"batch", 6};
    Graph g;
    const Tensor x = dense(g.input("x", {batch, {"in", 2}}), {.out = {Dim{"f", 3}}, .name = "d"});
    const Step step =
        training(sum(batch_norm(x, {.momentum = 0, .name = "norm"})), Sgd{.learning_rate = 0.1}, {.accumulate = micro_batches});
    const Outcome cut = run_plan(in_f64(step, mesh_of({{"all", 3}}), LayoutRules{{batch, "all", Sizes{{4, 0, 2}}}}), {.steps = 2});
    CHECK(cut.weights.at("norm.running_mean") == std::vector<double>(3, 0));
    CHECK(cut.weights.at("norm.running_var") == std::vector<double>(3, 1));
  }
}

// Two norms whose statistics are of the samples that a rank has, or of all; a stem that mixes no samples.
Step with_statistics(bool local, Index samples, Index micro_batches) {
  Graph g;
  Tensor x = g.input("x", {{"batch", samples}, {"in", 2}, {"rows", 5}, {"cols", 4}});
  for (const std::string k : {"1", "2"}) {
    x = conv2d(x, {.out = {"f" + k, 3}, .window = 3, .padding = same, .name = "c" + k});
    x = relu(batch_norm(x, {.momentum = 0.25, .epsilon = 1e-3, .local = local, .name = "n" + k}));
  }
  const Tensor y = dense(x, {.out = {{"out", 3}}, .name = "d"});
  return training(sum(mul(y, y)), Sgd{.learning_rate = 1e-4}, {.accumulate = micro_batches});
}

// On one rank, statistics of these parts of the batch.
Plan in_parts(const Step& step, const std::vector<Index>& parts) {
  const Plan plan = in_f64(step, mesh_of({{"one", 1}}));
  PlanData data = plan.data();
  for (Pass& p : data.passes.passes)
    for (Index k = 0, first = 0; p.own.of >= 0 && k < static_cast<Index>(parts.size());
         first += parts[static_cast<std::size_t>(k++)])
      p.own.borders.push_back(first);
  return plan_from(step, plan.mesh(), std::move(data));
}

TEST_CASE("layout law: local statistics, any parts of the batch, other dims cut too", "[law]") {
  for (unsigned number = 0; number < share_of(60U); number++) {
    Random random(830000 + number);
    const auto ranks = static_cast<std::size_t>(pick(random, 1, 4));
    std::vector<Index> parts;
    for (std::size_t r = 0; r < ranks; r++) parts.push_back(pick(random, r == 0 ? 1 : 0, 4));
    const Index samples = std::accumulate(parts.begin(), parts.end(), Index{0});
    const Step step = with_statistics(true, samples, 1);
    LayoutRules rules{{"batch", "a", Sizes{parts}}};
    const std::string other =
        std::vector<std::string>{"", "f1", "f2", "rows", "cols"}[static_cast<std::size_t>(pick(random, 0, 4))];
    const Index size = other == "rows" ? 5 : other == "cols" ? 4 : 3, part = pick(random, 0, size);
    if (!other.empty()) rules.split.emplace_back(other, "b", Sizes{{part, size - part}});
    INFO("case " << number << ", " << other << " " << part);
    const Outcome own = run_plan(in_f64(step, mesh_of({{"a", static_cast<int>(ranks)}, {"b", other.empty() ? 1 : 2}}), rules));
    CHECK(difference(own, run_plan(in_parts(step, parts))) < 1e-11);
    if (ranks == 1) CHECK(difference(own, run_plan(in_f64(with_statistics(false, samples, 1), mesh_of({{"one", 1}})))) < 1e-11);
  }
}

TEST_CASE("statistics of micro-batches, and local ones of uneven parts, by hand", "[law]") {
  const Dim batch{"batch", 6}, in{"in", 3};
  const auto norm_of = [&](bool local, Index micro_batches) {
    Graph g;
    const Tensor y = batch_norm(g.input("x", {batch, in}), {.momentum = 0.25, .epsilon = 1e-3, .local = local, .name = "norm"});
    return training(sum(mul(mul(y, y), y)), Sgd{.learning_rate = 0}, {.accumulate = micro_batches});
  };
  const RandomStream stream(RunOptions{}.seed, "x");
  // times: so often one micro-batch is computed, each time of the same samples.
  const auto check = [&](const Outcome& got, const std::vector<Index>& parts, int times) {
    double loss = 0;
    const Index samples = std::accumulate(parts.begin(), parts.end(), Index{0});
    INFO(parts.size() << " parts, the first of " << parts.front() << ", " << times << " times");
    for (std::size_t c = 0; c < 3; c++) {
      double moved_mean = 0, moved_variance = 1;
      double mean_of_parts = 0, variance_of_parts = 0;
      for (std::size_t p = 0, first = 0; p < parts.size(); first += static_cast<std::size_t>(parts[p++])) {
        const auto n = static_cast<double>(parts[p]);
        double mean = 0, variance = 0;
        const auto value = [&](std::size_t i) { return 2 * stream.uniform(static_cast<std::uint64_t>((first + i) * 3 + c)) - 1; };
        const auto count = static_cast<std::size_t>(parts[p]);
        for (std::size_t i = 0; i < count; i++) mean += value(i) / n;
        for (std::size_t i = 0; i < count; i++) variance += (value(i) - mean) * (value(i) - mean) / n;
        for (std::size_t i = 0; i < count; i++)
          loss += std::pow(
              (value(i) - mean) / std::sqrt(variance + 1e-3) * got.weights.at("norm.weight")[c] + got.weights.at("norm.bias")[c],
              3);
        if (count == 0) continue;
        const double unbiased = variance * n / (n - 1);
        mean_of_parts += n / static_cast<double>(samples) * mean;
        variance_of_parts += n / static_cast<double>(samples) * unbiased;
      }
      for (int k = 0; k < times; k++) {
        moved_mean += 0.25 * (mean_of_parts - moved_mean);
        moved_variance += 0.25 * (variance_of_parts - moved_variance);
      }
      CHECK(got.weights.at("norm.running_mean")[c] == Approx(moved_mean).epsilon(1e-6));
      CHECK(got.weights.at("norm.running_var")[c] == Approx(moved_variance).epsilon(1e-6));
    }
    CHECK(got.loss == Approx(loss).epsilon(1e-12));
  };
  check(run_plan(in_f64(norm_of(false, 2), mesh_of({{"all", 2}}), LayoutRules{{batch, "all", Sizes{{2, 1}}}}), {.steps = 1}), {3},
        2);
  check(run_plan(in_f64(norm_of(false, 3), mesh_of({{"one", 1}})), {.steps = 1}), {2}, 3);
  check(run_plan(in_f64(norm_of(true, 1), mesh_of({{"all", 3}}), LayoutRules{{batch, "all", Sizes{{4, 0, 2}}}}), {.steps = 1}),
        {4, 0, 2}, 1);
  // A variance of one value is not defined.
  const auto of_one_value = [&](Index micro_batches, const std::vector<Index>& parts) {
    return in_f64(norm_of(true, micro_batches), mesh_of({{"all", 3}}), LayoutRules{{batch, "all", Sizes{parts}}});
  };
  CHECK_THROWS_WITH(
      of_one_value(1, {2, 3, 1}),
      Catch::Contains("\"norm\" has local statistics, and rank 2 (rank 2) has only one value per statistic in a step"));
  CHECK_THROWS_WITH(of_one_value(2, {1, 2, 3}), Catch::Contains("one value per statistic in a micro-batch"));
  CHECK_NOTHROW(of_one_value(2, {6, 0, 0}));
  check(run_plan(in_f64(norm_of(true, 1), mesh_of({{"all", 3}}), LayoutRules{{in, "all", Sizes{{1, 0, 2}}}}), {.steps = 1}), {6},
        1);
}

// Mean and variance come of one reading, shifted by the first value.
TEST_CASE("a norm's statistics keep their digits: values far from 0, an outlier first, all equal", "[law]") {
  constexpr Index kRows = 4, kFeatures = 5000;
  const auto value = [](Index row, Index i) {
    const double noise = std::sin(12.9898 * static_cast<double>(i + 1) + static_cast<double>(row));
    return row == 0 ? noise : row == 1 ? 1000 + noise : row == 2 ? (i == 0 ? 3000 : noise) : 0.1;
  };
  Graph g;
  const Dim rows{"rows", kRows}, features{"features", kFeatures};
  const Tensor x = g.input("x", {rows, features}), y = layer_norm(x, {.over = {features}, .epsilon = 1e-9});
  for (const DType dtype : {DType::f32, DType::f64})
    for (const std::vector<Index>& parts : {std::vector<Index>{kFeatures}, {1, kFeatures - 1}, {0, 1800, 3200}}) {
      const auto ranks = static_cast<int>(parts.size());
      const Plan plan =
          balance(inference({y}), mesh_of({{"a", ranks}}), LayoutRules{{features, "a", Sizes{parts}}}, {}, {.dtype = dtype});
      std::vector<double> got;
      std::mutex lock;
      run_ranks_in_memory(ranks, [&](Runtime& rt) {
        State state(plan, rt.rank(), 1);
        Predictor predictor(rt, plan, state);
        predictor.run({{x, [&](const Box& box, std::span<std::byte> bytes) {
                          std::size_t at = 0;
                          for (Index row = box[0].begin; row < box[0].end; row++)
                            for (Index i = box[1].begin; i < box[1].end; i++, at++)
                              if (dtype == DType::f64)
                                reinterpret_cast<double*>(bytes.data())[at] = value(row, i);
                              else
                                reinterpret_cast<float*>(bytes.data())[at] = static_cast<float>(value(row, i));
                        }}});
        const std::vector<double> all = predictor.get(y);
        const std::lock_guard hold(lock);
        if (rt.rank() == 0) got = all;
      });
      REQUIRE(got.size() == static_cast<std::size_t>(kRows * kFeatures));
      for (Index row = 0; row < kRows; row++) {
        const auto stored = [&](Index i) {
          return static_cast<long double>(dtype == DType::f64 ? value(row, i)
                                                              : static_cast<double>(static_cast<float>(value(row, i))));
        };
        long double mean = 0, variance = 0;
        for (Index i = 0; i < kFeatures; i++) mean += stored(i) / kFeatures;
        for (Index i = 0; i < kFeatures; i++) variance += (stored(i) - mean) * (stored(i) - mean) / kFeatures;
        double worst = 0;
        for (Index i = 0; i < kFeatures; i++) {
          const auto expected = static_cast<double>((stored(i) - mean) / std::sqrt(variance + 1e-9L));
          const double here = std::abs(got[static_cast<std::size_t>(row * kFeatures + i)] - expected) / (1 + std::abs(expected));
          if (!(here <= worst)) worst = std::isnan(here) ? HUGE_VAL : here;
        }
        INFO("row " << row << ", " << worst << " apart, " << ranks << " ranks, " << to_string(dtype));
        // A mean of 1000 is rounded to f32 before it is subtracted; shifted by an outlier, f64 loses up to kFeatures roundings.
        CHECK(worst < (dtype == DType::f64 ? (row == 2 ? 1e-11 : 1e-12) : row == 1 ? 1e-4 : 1e-6));
      }
    }
}

TEST_CASE("samples are those of the first input's first dim, wherever a norm finds it", "[law]") {
  const Dim batch{"batch", 6}, f{"f", 4}, rows{"rows", 3};
  for (const bool groups : {false, true}) {
    const auto step_of = [&](bool turned) {
      Graph g;
      Tensor x = g.input("x", {batch, f, rows});
      if (turned) x = transpose(x, {.order = {rows, f, batch}});
      Tensor y = groups ? group_norm(x, {.groups = 2, .of = f, .name = "n"}) : batch_norm(x, {.of = f, .local = true, .name = "n"});
      return training(sum(mul(mul(y, y), y)), Sgd{.learning_rate = 0.1});
    };
    const Mesh mesh = mesh_of({{"all", 3}});
    const LayoutRules rules{{batch, "all", Sizes{{3, 1, 2}}}};
    const Outcome straight = run_plan(in_f64(step_of(false), mesh, rules), {.steps = 2}),
                  turned = run_plan(in_f64(step_of(true), mesh, rules), {.steps = 2});
    CHECK(difference(straight, turned) < 1e-12);
  }
  Graph g;
  const Tensor x = transpose(g.input("x", {batch, f, rows}), {.order = {rows, f, batch}});
  CHECK_THROWS_WITH(batch_norm(x, {.of = batch}), Catch::Contains("counts the samples"));
  const Tensor y = mul(softmax(x, {.over = batch}), x);
  CHECK_THROWS_WITH(training(sum(mul(y, g.parameter({rows}, {.name = "p"}))), Sgd{}, {.accumulate = 2}),
                    Catch::Contains("one micro-batch at a time"));
}

TEST_CASE("mul and add read the tensor of fewer dims first or last", "[law]") {
  const Dim batch{"batch", 6}, f{"f", 4}, rows{"rows", 3};
  for (const bool multiplied : {true, false}) {
    const auto step_of = [&](bool small_first) {
      Graph g;
      const Tensor x = g.input("x", {batch, f, rows}), p = g.parameter({f}, {.deviation = 1, .name = "p"}),
                   small = relu(g.parameter({rows, batch}, {.deviation = 1, .name = "q"})), large = mul(x, p),
                   &a = small_first ? small : large, &b = small_first ? large : small;
      const Tensor y = multiplied ? mul(a, b) : add(a, b);
      CHECK(y.shape() == large.shape());
      return training(sum(mul(y, y)), Sgd{.learning_rate = 0.1});
    };
    const Mesh mesh = mesh_of({{"all", 3}});
    const LayoutRules rules{{batch, "all", Sizes{{3, 1, 2}}}};
    CHECK(difference(run_plan(in_f64(step_of(false), mesh, rules), {.steps = 2}),
                     run_plan(in_f64(step_of(true), mesh, rules), {.steps = 2})) < 1e-12);
  }
  Graph g;
  const Tensor x = g.input("x", {batch, f}), y = g.input("y", {batch, rows}), z = g.input("z", {rows});
  CHECK_THROWS_WITH(mul(x, y), Catch::Contains("lacks its dim \"rows\"; one of the two has all dims of the other"));
  CHECK_THROWS_WITH(mul(z, x), Catch::Contains("lacks its dim \"rows\"; one of the two has all dims of the other"));
}

TEST_CASE("group_norm: every cut of its channels into three parts, and what it computes, by loops", "[law]") {
  const Dim batch{"batch", 2}, c{"c", 6}, rows{"rows", 3}, cols{"cols", 2};
  for (const Index groups : {1, 2, 3, 6}) {
    Graph g;
    const Tensor x = g.input("x", {batch, c, rows, cols});
    const Tensor y = group_norm(x, {.groups = groups, .epsilon = 1e-3, .name = "norm"});
    const Tensor flat = dense(y, {.in = {c, cols}, .out = {{"one", 1}}, .bias = false, .name = "d"});
    const Step step = training(sum(mul(flat, flat)), Sgd{.learning_rate = 0});
    CHECK(step.parameters() == std::vector<std::string>{"norm.weight", "norm.bias", "d.weight"});
    const Outcome one = run_plan(in_f64(step, mesh_of({{"one", 1}})), {.steps = 1});
    const RandomStream stream(RunOptions{}.seed, "x");
    const std::vector<double>&weight = one.weights.at("norm.weight"), &bias = one.weights.at("norm.bias"),
          &d = one.weights.at("d.weight");
    const auto value = [&](Index k) { return 2 * stream.uniform(static_cast<std::uint64_t>(k)) - 1; };
    const Index each = c.size / groups * rows.size * cols.size;  // one after the other in memory
    double loss = 0;
    std::vector<double> sums(static_cast<std::size_t>(batch.size * rows.size), 0.0);
    for (Index first = 0; first < batch.size * c.size * rows.size * cols.size; first += each) {
      double mean = 0, variance = 0;
      for (Index k = first; k < first + each; k++) mean += value(k) / static_cast<double>(each);
      for (Index k = first; k < first + each; k++) variance += (value(k) - mean) * (value(k) - mean) / static_cast<double>(each);
      for (Index k = first; k < first + each; k++) {
        const auto channel = static_cast<std::size_t>(k / (rows.size * cols.size) % c.size),
                   col = static_cast<std::size_t>(k % cols.size);
        const double normal = (value(k) - mean) / std::sqrt(variance + 1e-3) * weight[channel] + bias[channel];
        const Index n = k / (c.size * rows.size * cols.size), row = k / cols.size % rows.size;
        sums[static_cast<std::size_t>(n * rows.size + row)] += normal * d[channel * static_cast<std::size_t>(cols.size) + col];
      }
    }
    for (const double s : sums) loss += s * s;
    INFO(groups << " groups");
    CHECK(one.loss == Approx(loss).epsilon(1e-12));
    for (Index a = 0; a <= c.size; a++)
      for (Index b = 0; a + b <= c.size; b++) {
        INFO("c " << a << " " << b << " " << c.size - a - b);
        const Plan many = in_f64(step, mesh_of({{"all", 3}}), LayoutRules{{c, "all", Sizes{{a, b, c.size - a - b}}}});
        CHECK(difference(run_plan(many, {.steps = 1}), one) < 1e-12);
        // Sums of members travel and change their shape in f64 beside f32.
        const Plan single = balance(step, many.mesh(), LayoutRules{{c, "all", Sizes{{a, b, c.size - a - b}}}}, {});
        CHECK(difference(run_plan(single, {.steps = 1, .cpu_backend = true}), one) < 1e-5);
      }
  }
}

TEST_CASE("layout law: what is dropped is decided by seed, name, step and place", "[law]") {
  const Dim batch{"batch", 8}, in{"in", 40}, out{"out", 50};
  for (const double rate : {0.0, 0.25, 0.5, 0.9}) {
    Graph g;
    const Tensor h = dropout(dense(g.input("x", {batch, in}), {.out = {out}, .name = "d"}), {.rate = rate, .name = "drop"});
    const Tensor loss = mean(mul(h, h));
    const auto run = [&](const LayoutRules& rules, Index accumulate, unsigned seed) {
      const Step step = training(loss, Sgd{.learning_rate = 0.1}, {.accumulate = accumulate});
      const Mesh mesh = mesh_of({{"all", rules.split.empty() ? 1 : 3}});
      return run_plan(in_f64(step, mesh, rules), {.seed = seed});
    };
    const Outcome one = run({}, 1, 3);
    CHECK(difference(run(LayoutRules{{out, "all", Sizes{{1, 30, 19}}}}, 1, 3), one) < 1e-13);
    CHECK(difference(run(LayoutRules{{batch, "all", Sizes{{5, 0, 3}}}}, 1, 3), one) < 1e-13);
    // A quarter of the elements is dropped, not one more or less than at random.
    std::size_t zeros = 0;
    const std::vector<double>& bias = one.gradients.at("d.bias");
    for (const double b : bias) zeros += b == 0 ? 1 : 0;
    CHECK(zeros <= (rate < 0.9 ? 3U : 50U));
  }
}

TEST_CASE("layout law: what is dropped where the samples' dim is not the first", "[law]") {
  const Dim batch{"batch", 6}, rows{"rows", 30}, in{"in", 4};
  Graph g;
  const Tensor x = transpose(g.input("x", {batch, rows, in}), {rows, in, batch});
  const Tensor kept = dropout(mul(x, g.parameter({rows, in}, {.deviation = 1, .name = "scale"})), {.rate = 0.5, .name = "drop"});
  const Tensor loss = mean(mul(kept, kept));
  const auto run = [&](const LayoutRules& rules) {
    return run_plan(in_f64(training(loss, Sgd{.learning_rate = 0.1}), mesh_of({{"all", rules.split.empty() ? 1 : 3}}), rules),
                    {.seed = 3});
  };
  const Outcome one = run({});
  CHECK(difference(run(LayoutRules{{batch, "all", Sizes{{1, 0, 5}}}}), one) < 1e-13);
  CHECK(difference(run(LayoutRules{{rows, "all", Sizes{{20, 9, 1}}}}), one) < 1e-13);
  CHECK_NOTHROW(training(loss, Sgd{}, {.accumulate = 3}));
  // Every element of a sample draws for itself: with one draw per sample, either no scale or every one would have no gradient.
  std::size_t zeros = 0;
  for (const double v : one.gradients.at("scale.weight")) zeros += v == 0 ? 1 : 0;
  CHECK(zeros <= 8U);
}
