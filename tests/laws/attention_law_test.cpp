// SPDX-License-Identifier: Apache-2.0
// Layout law and pick law of attention: any cut of heads, head size, queries, keys and features equals the unsharded network; and
// what it computes, by loops.
#include <motley/error.h>
#include <motley/ops.h>
#include <motley/program.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "base/random.h"
#include "plan/cost.h"
#include "plan/formats.h"
#include "tests/support/op_laws.h"
#include "tests/support/random_network.h"
#include "tests/support/run_plan.h"
#include "tests/support/shrink.h"

using namespace motley;
using namespace motley::law;

TEST_CASE("layout law: attention, one or two axes, any parts", "[law]") {
  check_layouts(831000, 150, with_attention, {.often = 0.45, .spatial = 0.3, .nested = 0.1, .jagged = 0.1});
}

TEST_CASE("pick law: every legal pick of attention", "[law]") {
  check_picks(840000, 150, with_attention, {.often = 0.45, .spatial = 0.3, .nested = 0.1, .jagged = 0.1});
}

TEST_CASE("layout and pick law: embeddings, shared weights, learned constants", "[law]") {
  int refused = 0;
  for (unsigned number = 850000; number < 850000 + share_of(300U); number++) {
    Random random(number);
    const Network net = token_network(random);
    const Step step = training(net.loss, Sgd{.learning_rate = 0.05, .momentum = 0.9},
                               {.accumulate = chance(random, 0.3) ? net.dims.front().size : 1});
    const auto ranks = static_cast<int>(pick(random, 1, 4));
    LayoutRules rules;
    for (const Dim& d : net.dims)
      if (chance(random, 0.25)) rules.split.push_back({d, "a", Sizes{parts(random, d.size, ranks)}});
    INFO("case " << number);
    const Outcome truth = run_plan(balance(step, mesh_of({{"one", 1}}), {}, {}, {.dtype = DType::f64}));
    try {
      const Mesh mesh = mesh_of({{"a", ranks}});
      const Plan plan = number % 2 == 0 ? balance(step, mesh, rules, {}, {.dtype = DType::f64})
                                        : with_random_picks(step, mesh, rules, number, DType::f64, random_ownership(number));
      CHECK(difference(run_plan(plan), truth) < 1e-10);
    } catch (const UserError&) {
      refused++;  // two dims of one tensor on the axis
    }
  }
  CHECK(refused < static_cast<int>(share_of(300U)));
}

namespace {

// Two layers of attention after each other, as a network has them.
Plan layers_of_attention(Index positions, const std::vector<Rule>& rules, int ranks) {
  Graph g;
  Tensor x = g.input("x", {{"batch", 2}, {"positions", positions}, {"features", 16}});
  for (const std::string name : {"a", "b"}) x = attention(x, {.heads = {"heads", 4}, .causal = true, .name = name});
  LayoutRules layout;
  layout.split = rules;
  return balance(training(sum(mul(x, x)), Sgd{.learning_rate = 0.1}), mesh_of({{"all", ranks}}), layout, {});
}
Program program_of(const Plan& plan, int rank) {
  return compile(plan, rank);
}
// Results of each kernel of attention.
std::vector<Index> attended(const Program& program) {
  std::vector<Index> out;
  for (const ProgramStep& s : program.steps)
    if (const auto* run = std::get_if<RunKernel>(&s.what); run != nullptr && run->spec.op == KernelOp::attention)
      out.push_back(run->spec.made);
  return out;
}

}  // namespace

TEST_CASE("attention's memory grows with the positions, not with their square", "[law]") {
  const Index of_128 = program_of(layers_of_attention(128, {}, 1), 0).arena_bytes,
              of_512 = program_of(layers_of_attention(512, {}, 1), 0).arena_bytes;
  CHECK(of_512 > 3 * of_128);
  CHECK(of_512 <= 4 * of_128 + 4096);
  CHECK(of_512 < 4 * 2 * 4 * 512 * 512);  // the scores of one layer
  const Plan cut = layers_of_attention(512, {Rule{Dim{"positions", 512}, "all", Sizes{{400, 112}}}}, 2);
  for (int r : {0, 1}) CHECK(program_of(cut, r).arena_bytes < 3 * of_512 / 2);
}

TEST_CASE("one kernel makes output and log-sum-exp, one the three gradients, under a cut of the queries or the heads too",
          "[law]") {
  const std::vector<Index> both{3, 3, 7, 7};
  CHECK(attended(program_of(layers_of_attention(12, {}, 1), 0)) == both);
  for (const Rule& rule : {Rule{Dim{"positions", 12}, "all", Sizes{{8, 4}}}, Rule{Dim{"heads", 4}, "all", Sizes{{3, 1}}},
                           Rule{Dim{"batch", 2}, "all", {}}}) {
    INFO(rule.dim);
    const Plan plan = layers_of_attention(12, {rule}, 2);
    for (int r : {0, 1}) CHECK(attended(program_of(plan, r)) == both);
  }
}

TEST_CASE("a plan prices the passes of attention as the kernels that run", "[law]") {
  const Plan plan = layers_of_attention(12, {}, 1);
  const Passes& passes = plan.step().passes();
  const Profile none;
  const Cost cost(passes, plan.mesh(), none, {1.0}, DType::f32, common_formats(passes, plan.mesh(), DType::f32));
  double planned = 0, run = 0;
  for (std::size_t p = 0; p < passes.passes.size(); p++) {
    Box all;
    for (const PassIndex& i : passes.passes[p].indices) all.push_back({0, i.size});
    if (passes.passes[p].op == KernelOp::attention) planned += cost.pass(0, static_cast<int>(p), all);
  }
  for (const ProgramStep& s : program_of(plan, 0).steps)
    if (const auto* kernel = std::get_if<RunKernel>(&s.what); kernel != nullptr && kernel->spec.op == KernelOp::attention)
      run += flops(kernel->spec);
  CHECK(run > 0);
  CHECK(planned == Approx(run));
}

TEST_CASE("attention: masks of any dims of the batch, under any cut", "[law]") {
  for (const int form : {0, 1, 2}) {
    Graph g;
    const Dim batch{"batch", 2}, groups{"groups", 3}, positions{"positions", 5};
    const Tensor x = g.input("x", {batch, groups, positions, {"features", 4}});
    const Tensor mask = g.input("mask", form == 0   ? Shape{positions}
                                        : form == 1 ? Shape{batch, positions}
                                                    : Shape{positions, groups, batch});
    const Tensor y = attention(x, {.heads = {"heads", 2}, .causal = form == 1, .mask = mask, .name = "a"});
    const Step step = training(sum(mul(y, y)), Sgd{.learning_rate = 0.1});
    const Outcome truth = run_plan(balance(step, mesh_of({{"one", 1}}), {}, {}, {.dtype = DType::f64}));
    for (const Rule& rule :
         {Rule{positions, "all", Sizes{{3, 0, 2}}}, Rule{groups, "all", Sizes{{1, 2, 0}}}, Rule{batch, "all", Sizes{{0, 1, 1}}},
          Rule{Dim{"heads", 2}, "all", Sizes{{1, 0, 1}}}, Rule{Dim{"head-heads", 2}, "all", Sizes{{1, 1, 0}}}}) {
      INFO("form " << form << ", " << rule.dim);
      CHECK(difference(run_plan(balance(step, mesh_of({{"all", 3}}), {{rule}}, {}, {.dtype = DType::f64})), truth) < 1e-10);
    }
  }
}

TEST_CASE("attention, by loops", "[law]") {
  constexpr Index kBatch = 2, kPositions = 5, kFeatures = 6, kHeads = 3, kSize = kFeatures / kHeads;
  const Shape shape({{"batch", kBatch}, {"positions", kPositions}, {"features", kFeatures}});
  for (const int form : {0, 1, 2, 3}) {
    const bool causal = form % 2 == 1, masked = form > 1;
    Graph g;
    const Tensor x = g.input("x", shape);
    const std::optional<Tensor> mask =
        masked ? std::optional(g.input("mask", {{"batch", kBatch}, {"positions", kPositions}})) : std::nullopt;
    const Tensor y = attention(x, {.heads = {"heads", kHeads}, .causal = causal, .mask = mask, .name = "a"});
    const Step step = training(sum(mul(y, y)), Sgd{.learning_rate = 0});
    const LayoutRules rules{masked ? Rule{Dim{"positions", kPositions}, "all", Sizes{{2, 3}}}
                                   : Rule{Dim{"heads", kHeads}, "all", Sizes{{2, 1}}}};
    const Outcome one = run_plan(balance(step, mesh_of({{"all", 2}}), rules, {}, {.dtype = DType::f64}), {.steps = 1});
    const RandomStream stream(RunOptions{}.seed, "x"), mask_stream(RunOptions{}.seed, "mask");
    const auto image = [&](Index n, Index i, Index c) {
      return 2 * stream.uniform(static_cast<std::uint64_t>((n * kPositions + i) * kFeatures + c)) - 1;
    };
    const auto weight = [&](const std::string& name, Index k) { return one.weights.at("a." + name)[static_cast<std::size_t>(k)]; };
    const auto projected = [&](const std::string& name, Index n, Index i, Index row) {
      double out = weight(name + ".bias", row);
      for (Index c = 0; c < kFeatures; c++) out += weight(name + ".weight", row * kFeatures + c) * image(n, i, c);
      return out;
    };
    double loss = 0;
    for (Index n = 0; n < kBatch; n++)
      for (Index i = 0; i < kPositions; i++) {
        std::vector<double> joined;
        for (Index row = 0; row < kFeatures; row++) {
          double sum = 0, value = 0;
          for (Index j = 0; j < (causal ? i + 1 : kPositions); j++) {
            if (masked && 2 * mask_stream.uniform(static_cast<std::uint64_t>(n * kPositions + j)) - 1 <= 0) continue;
            double score = 0;
            for (Index d = row / kSize * kSize; d < (row / kSize + 1) * kSize; d++)
              score += projected("query", n, i, d) * projected("key", n, j, d);
            const double e = std::exp(score / std::sqrt(static_cast<double>(kSize)));
            sum += e;
            value += e * projected("value", n, j, row);
          }
          joined.push_back(sum == 0 ? 0 : value / sum);
        }
        for (Index c = 0; c < kFeatures; c++) {
          double out = weight("out.bias", c);
          for (Index row = 0; row < kFeatures; row++)
            out += weight("out.weight", c * kFeatures + row) * joined[static_cast<std::size_t>(row)];
          loss += out * out;
        }
      }
    CHECK(one.loss == Approx(loss).epsilon(1e-12));
  }
}
