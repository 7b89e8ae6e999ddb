// SPDX-License-Identifier: Apache-2.0
// Layout law, pick law and exact law of convolutions by groups and of batches of products: any cut of their dims, inside groups
// too, equals the unsharded network.
#include <motley/error.h>
#include <motley/ops.h>
#include <motley/program.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "plan/kernel_of.h"
#include "plan/plan_data.h"
#include "tests/support/op_laws.h"
#include "tests/support/random_network.h"
#include "tests/support/run_plan.h"

using namespace motley;
using namespace motley::law;

namespace {

Recipe with_groups_and_products(Recipe recipe, Random& random) {
  return with_products(with_groups(std::move(recipe), random), random);
}

Step step_of(const Tensor& loss) {
  return training(loss, Sgd{.learning_rate = 0.05, .momentum = 0.9});
}

// Every way to cut `size` into three parts, every part empty at times.
std::vector<std::vector<Index>> three_parts(Index size) {
  std::vector<std::vector<Index>> out;
  for (Index a = 0; a <= size; a++)
    for (Index b = 0; a + b <= size; b++) out.push_back({a, b, size - a - b});
  return out;
}

// Equal to one rank's, with the bytes that were planned.
void check_equal(const Step& step, const Mesh& mesh, const LayoutRules& rules) {
  const Plan one = balance(step, mesh_of({{"one", 1}}), {}, {}, {.dtype = DType::f64});
  const Plan many = balance(step, mesh, rules, {}, {.dtype = DType::f64});
  const Outcome cut = run_plan(many);
  CHECK(difference(cut, run_plan(one)) < 1e-12);
  for (std::size_t r = 0; r < cut.counted.size(); r++) CHECK(cut.counted[r] == many.data().predicted[r].bytes);
}

}  // namespace

TEST_CASE("layout law: convolutions by groups, one or two axes, any parts", "[law]") {
  check_layouts(610000, 150, with_groups, {.often = 0.6, .spatial = 0.3, .nested = 0.1, .jagged = 0.15});
}

TEST_CASE("layout law: products of activations, one or two axes, any parts", "[law]") {
  check_layouts(620000, 150, with_products, {.often = 0.5, .spatial = 0.4, .nested = 0.1, .jagged = 0.15});
}

TEST_CASE("pick law: every legal pick of convolutions by groups and of products", "[law]") {
  check_picks(630000, 200, with_groups_and_products, {.often = 0.45, .nested = 0.1, .jagged = 0.1});
}

TEST_CASE("exact law: convolutions by groups through the kernels, formats and exchanges users run, bit for bit", "[law]") {
  check_exact(640000, 120, with_groups, {.often = 0.6, .spatial = 0.3, .jagged = 0.1});
}

TEST_CASE("a convolution by groups: every cut of its channels and filters into three parts, whole groups and parts of them",
          "[law]") {
  for (const auto& [groups, channels, filters] : {std::array<Index, 3>{2, 4, 6}, {3, 6, 3}, {4, 4, 8}, {5, 5, 5}}) {
    const Dim batch{"batch", 2}, in{"in", 2}, c{"c", channels}, rows{"rows", 4}, cols{"cols", 3}, f{"f", filters},
        classes{"classes", 2};
    Graph g;
    const Tensor x = conv2d(g.input("x", {batch, in, rows, cols}), {.out = c, .window = 1});
    const Tensor y = relu(conv2d(x, {.out = f, .window = 3, .padding = same, .groups = groups}));
    const Step step = step_of(sum(dense(y, {.out = {classes}})));
    const Mesh mesh = mesh_of({{"all", 3}});
    for (const auto& parts : three_parts(channels)) {
      INFO(groups << " groups, c " << parts[0] << " " << parts[1] << " " << parts[2]);
      check_equal(step, mesh, LayoutRules{{c, "all", Sizes{parts}}, {f, Axes()}});
      check_equal(step, mesh, LayoutRules{{c, "all", Sizes{parts}}});
    }
    for (const auto& parts : three_parts(filters)) {
      INFO(groups << " groups, f " << parts[0] << " " << parts[1] << " " << parts[2]);
      check_equal(step, mesh, LayoutRules{{f, "all", Sizes{parts}}});
    }
  }
}

TEST_CASE("a convolution by groups: what it makes is cut as what it reads is, and nothing moves between them at group boundaries") {
  const Dim batch{"batch", 2}, in{"in", 2}, c{"c", 6}, rows{"rows", 4}, cols{"cols", 3}, f{"f", 12}, classes{"classes", 2};
  Graph g;
  const Tensor x = conv2d(g.input("x", {batch, in, rows, cols}), {.out = c, .window = 1, .name = "pointwise"});
  const Tensor y = conv2d(x, {.out = f, .window = 3, .padding = same, .groups = 6, .name = "depthwise"});
  const Plan plan = balance(step_of(sum(dense(y, {.out = {classes}}))), mesh_of({{"all", 3}}),
                            LayoutRules{{c, "all", Sizes{{3, 1, 2}}}}, {}, {.dtype = DType::f64});
  const Passes& passes = plan.data().passes;
  const auto tensor = [&](const std::string& name) { return plan.data().tensors[static_cast<std::size_t>(passes.find(name))]; };
  CHECK(tensor("depthwise").layout.cuts.at("f").lists.front().sizes() == std::vector<Index>{6, 2, 4});
  for (const char* name : {"pointwise", "gradient of pointwise"})
    for (const auto hop : kHops) CHECK_FALSE((tensor(name).*hop).travels());
  for (std::size_t p = 0; p < passes.passes.size(); p++)
    if (passes.passes[p].layer == "depthwise" && passes.passes[p].op == KernelOp::conv2d)
      for (std::size_t r = 0; r < 3; r++) {
        const Box& box = plan.data().pass_plans[p].work[r].box;
        REQUIRE(kernel_boxes(passes.passes[p], box).size() == 1);
        const Roles e = kernel_of(passes, passes.passes[p], box, DType::f64, plan.data().formats).roles;
        CHECK(e.g == std::array<Index, 3>{3, 1, 2}[r]);
        CHECK(e.c == 1);
        CHECK(e.f == 2);
      }
}

TEST_CASE("matmul: every cut of its batch, kept and contracted dims into three parts", "[law]") {
  const Dim batch{"batch", 2}, in{"in", 3}, heads{"heads", 4}, i{"i", 3}, j{"j", 5}, d{"d", 4}, classes{"classes", 2};
  Graph g;
  const Tensor x = g.input("x", {batch, in});
  const Tensor q = dense(x, {.out = {heads, i, d}}), k = dense(x, {.out = {j, heads, d}}), v = dense(x, {.out = {heads, d, j}});
  const Tensor scores = matmul(q, k, {.over = {d}, .name = "scores"});
  CHECK(scores.shape() == Shape{batch, heads, i, j});
  const Tensor y = matmul(motley::tanh(scores), v, {.over = {j}});
  CHECK(y.shape() == Shape{batch, heads, i, d});
  const Step step = step_of(sum(dense(y, {.out = {classes}})));
  const Mesh mesh = mesh_of({{"all", 3}});
  for (const Dim& cut : {batch, heads, i, j, d})
    for (const auto& parts : three_parts(cut.size)) {
      INFO(cut.name << " " << parts[0] << " " << parts[1] << " " << parts[2]);
      check_equal(step, mesh, LayoutRules{{cut, "all", Sizes{parts}}});
    }
}

TEST_CASE("exact law: a batch of products through the CPU backend, bit for bit", "[law]") {
  const Dim batch{"batch", 3}, heads{"heads", 5}, i{"i", 4}, j{"j", 3}, d{"d", 2}, classes{"classes", 2};
  for (int number = 0; number < share_of(40); number++) {
    Random random(static_cast<unsigned>(650000 + number));
    Graph g;
    const Tensor x = g.input("x", {batch, heads, i});
    const Tensor a = dense(x, {.in = {i}, .out = {d}}), b = dense(x, {.in = {i}, .out = {j}});
    const Tensor y = matmul(a, b, {.over = {batch}});
    const Step step = training(sum(y), Sgd{.learning_rate = 1, .momentum = 0});
    const auto ranks = static_cast<int>(pick(random, 1, 4));
    const Dim cut = std::array<Dim, 4>{batch, heads, j, d}[static_cast<std::size_t>(pick(random, 0, 3))];
    const Plan one = balance(step, mesh_of({{"one", 1}}), {}, {}, {.dtype = DType::f64});
    const Plan many =
        balance(step, mesh_of({{"all", ranks}}), LayoutRules{{cut, "all", Sizes{parts(random, cut.size, ranks)}}}, {});
    INFO("case " << number << " " << cut.name << " over " << ranks);
    CHECK(difference(run_plan(many, {.integers = true, .cpu_backend = true}), run_plan(one, {.integers = true})) == 0);
  }
}
