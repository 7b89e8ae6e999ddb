// SPDX-License-Identifier: Apache-2.0
// Storage law: a step that stores in bf16 is in f64 the step without it, under any cut; in bf16 it is near it, and sends half.
#include <motley/error.h>
#include <motley/ops.h>
#include <motley/program.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "graph/passes.h"
#include "plan/plan_data.h"
#include "tests/support/random_network.h"
#include "tests/support/run_plan.h"

using namespace motley;
using namespace motley::law;

namespace {

const TrainingOptions kStored{.storage = DType::bf16};

DType stored(const Step& step, const std::string& tensor) {
  const int t = step.passes().find(tensor);
  INFO(tensor);
  REQUIRE(t >= 0);
  return step.passes().tensors[static_cast<std::size_t>(t)].dtype;
}

Recipe recipe_of(Random& random, unsigned number) {
  const Recipe plain = random_recipe(random);
  switch (number % 5) {
    case 0: return with_norms(plain, random);
    case 1: return with_groups(plain, random);
    case 2: return with_products(plain, random);
    case 3: return with_attention(plain, random);
    default: return with_upsampling(plain, random);
  }
}

}  // namespace

TEST_CASE("storage law: random networks and cuts", "[law]") {
  int far = 0, ran = 0;
  for (unsigned number = 0; number < share_of(150U); number++) {
    Random random(910000 + number);
    const Recipe recipe = recipe_of(random, number);
    const Network net = build(recipe);
    const std::vector<Axis> axes{{"a", static_cast<int>(pick(random, 1, 4))}};
    const Case one{recipe, axes, random_cuts(random, net, axes, {.often = 0.5, .spatial = 0.4}), 0};
    const LayoutRules rules = rules_of(one, net);
    const Mesh mesh = mesh_of(axes), alone = mesh_of({{"one", 1}});
    const Step step = training(net.loss, Sgd{.learning_rate = 0.05}),
               in_bf16 = training(net.loss, Sgd{.learning_rate = 0.05}, kStored);
    INFO("case " << number << ": " << to_text(one));
    CHECK(step.hash() != in_bf16.hash());
    try {
      const Outcome truth = run_plan(balance(step, alone, {}, {}, {.dtype = DType::f64}));
      const Outcome same = run_plan(balance(in_bf16, mesh, rules, {}, {.dtype = DType::f64}));
      CHECK(difference(same, truth) < 1e-9);
      const Plan plan = balance(in_bf16, mesh, rules, {});
      const Outcome near = run_plan(plan, {.steps = 1, .cpu_backend = number % 2 == 0});
      const Outcome exact = run_plan(balance(step, alone, {}, {}, {.dtype = DType::f64}), {.steps = 1});
      CHECK(std::abs(near.loss - exact.loss) <= 0.1 * (1 + std::abs(exact.loss)));
      far += std::abs(near.loss - exact.loss) > 0.02 * (1 + std::abs(exact.loss)) ? 1 : 0;
      ran++;
    } catch (const UserError&) {  // cuts that meet
    }
  }
  CHECK(ran > when_all(90));
  CHECK(far <= ran / 10);
}

TEST_CASE("storage: activations and copies of weights are bf16, what is small or final is f32") {
  const Dim batch{"batch", 4}, in{"in", 2}, rows{"rows", 8}, cols{"cols", 8}, f{"f", 6}, classes{"classes", 3};
  Graph g;
  const Tensor x = g.input("x", {batch, in, rows, cols});
  const Tensor label = g.input("label", {batch}, DType::i32);
  Tensor h = conv2d(x, {.in = in, .out = f, .over = {rows, cols}, .window = 3, .padding = same, .name = "conv"});
  h = relu(batch_norm(h, {.name = "norm"}), {.name = "relu"});
  h = max_pool2d(h, {.over = {rows, cols}, .window = 2, .name = "pool"});
  const Tensor logits = dense(h, {.in = {f, rows, cols}, .out = {classes}, .name = "last"});
  const Tensor loss = mean(softmax_cross_entropy(logits, label, classes));
  const Step step = training(loss, Sgd{}, kStored);
  for (const char* name : {"conv", "norm", "relu", "pool", "x in bf16", "conv.weight in bf16", "last.weight in bf16",
                           "gradient of relu", "gradient of conv", "gradient of last in bf16"})
    CHECK(stored(step, name) == DType::bf16);
  for (const char* name : {"x", "conv.weight", "norm.weight", "norm.scale", "norm.running_mean", "last", "gradient of last",
                           "gradient of conv.weight", "gradient of last.weight", "last.bias"})
    CHECK(stored(step, name) == DType::f32);
  CHECK(stored(step, "norm.mean") == DType::f64);
  const Step predicts = inference({logits}, DType::bf16);
  CHECK(stored(predicts, "last") == DType::f32);
  CHECK(stored(predicts, "relu") == DType::bf16);
  CHECK_THROWS_AS(inference({logits}, DType::f64), UserError);
}

TEST_CASE("storage: attention's queries, keys, values and their gradients are bf16, its log-sum-exp and mask f32") {
  Graph g;
  const Tensor x = g.input("x", {{"batch", 4}, {"positions", 6}, {"features", 8}});
  const Tensor mask = g.input("mask", {{"positions", 6}});
  const Tensor y = attention(x, {.heads = {"heads", 2}, .mask = mask, .name = "a"});
  const Step step = training(sum(mul(y, y)), Sgd{}, kStored);
  for (const char* name : {"a.query", "a.key", "a.value", "a.heads", "gradient of a.query", "gradient of a.key",
                           "gradient of a.value", "gradient of a.heads"})
    CHECK(stored(step, name) == DType::bf16);
  for (const char* name : {"a.lse", "a.dot", "a.mask", "mask"}) CHECK(stored(step, name) == DType::f32);
  for (const Pass& p : step.passes().passes) {
    if (p.op != KernelOp::attention) continue;
    const std::size_t narrow = p.kind == PassKind::forward ? 3 : 4;
    for (std::size_t k = 0; k < p.reads.size(); k++)
      CHECK(step.passes().tensors[static_cast<std::size_t>(p.reads[k].tensor)].dtype == (k < narrow ? DType::bf16 : DType::f32));
  }
}

TEST_CASE("storage: a copy follows the rules of the tensor that it is a copy of") {
  const Dim batch{"batch", 8}, rows{"rows", 7}, classes{"classes", 5};
  Graph g;
  const Tensor y = dense(g.input("x", {batch, rows}), {.in = {rows}, .out = {classes}, .name = "d"});
  LayoutRules rules{{batch, "a", Sizes{{5, 3}}}, {rows, "a", Sizes{{3, 4}}}};
  rules.tensors["x"] = rules.tensors["d.weight"] = {Rule(rows, Axes{})};  // not cut
  for (const TrainingOptions& options : {TrainingOptions{}, kStored}) {
    const Step step = training(sum(mul(y, y)), Sgd{.learning_rate = 1e-3}, options);
    const Outcome cut = run_plan(balance(step, mesh_of({{"a", 2}}), rules, {}), {.steps = 1}),
                  one = run_plan(balance(step, mesh_of({{"one", 1}}), {}, {}), {.steps = 1});
    CHECK(difference(cut, one) < 0.02);
  }
}

TEST_CASE("storage: a tied weight has one copy; the rows that numbers choose stay f32") {
  Random random(7);
  const Network net = token_network(random);
  const Step step = training(net.loss, Sgd{}, kStored);
  int copies = 0;
  for (const StepTensor& t : step.passes().tensors)
    copies += t.name.ends_with(".weight in bf16") && t.name.starts_with("rows") ? 1 : 0;
  CHECK(copies <= 1);
  for (const Pass& p : step.passes().passes)
    for (const PassOperand& read : p.reads)
      if (const StepTensor& t = step.passes().tensors[static_cast<std::size_t>(read.tensor)];
          t.role == TensorRole::input && t.dtype == DType::i32)
        CHECK(step.passes().tensors[static_cast<std::size_t>(p.writes.tensor)].dtype == DType::f32);
}

TEST_CASE("storage: copies of weights travel as bf16, half the bytes") {
  const Dim batch{"batch", 8}, in{"in", 64}, hidden{"hidden", GENERATE(96, 640)}, out{"out", 32};  // small weights, large ones
  Graph g;
  const Tensor x = g.input("x", {batch, in});
  const Tensor h = relu(dense(x, {.out = {hidden}, .bias = false}));
  const Tensor y = dense(h, {.out = {out}, .bias = false});
  const Sizes parts = GENERATE(Sizes{{4, 4}}, Sizes{{5, 3}}, Sizes{{7, 1}});
  const auto received = [&](DType storage) {
    const Step step = training(sum(mul(y, y)), Sgd{.learning_rate = 0.01}, {.storage = storage});
    std::vector<Device> two(2);
    two[0].host = "here", two[1].host = "there";
    const Plan plan = balance(step, Mesh({{"all", 2}}, two), LayoutRules{{batch, "all", parts}}, {});
    const std::vector<Index> counted = run_plan(plan, {.steps = 1}).counted;
    return std::accumulate(counted.begin(), counted.end(), Index{0});
  };
  const Index loss = sizeof(float);  // weights there and gradients back, these as f32, or fewer
  CHECK(4 * (received(DType::bf16) - loss) <= 3 * (received(DType::f32) - loss));
}
