// SPDX-License-Identifier: Apache-2.0
// A step by layer: the seconds of each rank's layers sum to what it computes, on random meshes, speeds and links; and what is said
// of how far a prediction can be relied on.
#include <motley/ops.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "balance/needed_kernels.h"
#include "explain/layer_table.h"
#include "plan/plan_data.h"
#include "program/layer_seconds.h"
#include "program/predict.h"
#include "tests/support/random_network.h"
#include "tests/support/synthetic_profile.h"

using namespace motley;
using namespace motley::law;

namespace {

constexpr Index kBatch = 8, kFilters = 24;  // of a micro-batch, of the first convolution

struct Net {
  std::vector<Tensor> losses{}, logits{};
};

// A norm that is cut with its batch, shared work of every kind, one loss or two.
Net network(Random& random, Index batch_size) {
  Graph graph;
  const Dim batch{"batch", batch_size}, classes{"classes", 10};
  Tensor h = graph.input("image", {batch, {"in", 3}, {"rows", 8}, {"cols", 8}});
  const Tensor label = graph.input("label", {batch}, DType::i32);
  h = conv2d(h, {.out = {"f0", kFilters}, .window = 3, .padding = same, .name = "first"});
  if (chance(random, 0.5)) h = batch_norm(h);
  h = max_pool2d(relu(h), {.window = 2});
  h = relu(conv2d(h, {.out = {"f1", pick(random, 8, 32)}, .window = 3, .padding = same}));
  const Tensor logits = dense(h, {.out = {classes}, .name = "last"});
  Net out{{mean(softmax_cross_entropy(logits, label, classes))}, {logits}};
  if (chance(random, 0.4)) out.losses.push_back(mean(softmax_cross_entropy(dense(h, {.out = {classes}}), label, classes)));
  return out;
}

LayoutRules rules_for(Random& random, const Mesh& mesh) {
  LayoutRules rules;
  const std::string axis = mesh.axes().front().name;
  const int ranks = mesh.ranks();
  const bool batch = chance(random, 0.5);
  if (chance(random, 0.6))
    rules.split.emplace_back(batch ? "batch" : "f0", axis, Sizes{parts(random, batch ? kBatch : kFilters, ranks)});  // some are 0
  else
    rules.split.emplace_back("f1", axis);
  if (chance(random, 0.3)) rules.place("last", {mesh.device(ranks - 1).name});
  return rules;
}

void check_layers(const Plan& plan, const Profile& profile) {
  const PlanData& data = plan.data();
  const StepByLayer step = layer_seconds(data, profile);
  CHECK(step.step_seconds == Approx(*data.step_seconds).epsilon(1e-12));
  for (std::size_t r = 0; r < data.predicted.size(); r++) {
    double busy = 0, all = 0;
    for (const LayerSeconds& layer : step.layers) {
      busy += layer.busy[r];
      all += layer.busy[r] + layer.waiting[r];
      CHECK(layer.slowest() <= step.step_seconds * (1 + 1e-9));
    }
    CHECK(busy == Approx(data.predicted[r].seconds).epsilon(1e-9));
    CHECK(all <= step.step_seconds * (1 + 1e-9));
  }
  // No synthetic device is faster than its points.
  CHECK(least_step_seconds(data, profile) <= *data.step_seconds * (1 + 1e-9));
  for (const std::string& note : data.notes) CHECK(note.find("the predicted step of") == std::string::npos);
}

}  // namespace

TEST_CASE("layers: seconds sum to what each rank computes, and no plan is faster than all devices together", "[law]") {
  Random random(20261128);
  for (int n = 0; n < share_of(24); n++) {
    INFO("case " << n);
    const Mesh mesh = mesh_of({{"all", static_cast<int>(pick(random, 1, 4))}}, static_cast<int>(pick(random, 1, 2)));
    const Profile profile = testing::random_profile(mesh, random);
    const Index accumulate = pick(random, 1, 2);
    const LayoutRules rules = rules_for(random, mesh);
    const Net net = network(random, kBatch * accumulate);
    const Step step = training(net.losses, Sgd{.learning_rate = 0.1, .momentum = 0.9}, {.accumulate = accumulate});
    check_layers(balance(step, mesh, rules, profile, {.baselines = false}), profile);
    const Step evaluation = inference(net.logits);
    LayoutRules its = rules_within(evaluation, rules);
    its.split.clear();
    check_layers(balance(evaluation, mesh, its, profile, {.baselines = false}), profile);
  }
}

namespace {

Step small_step() {
  Graph graph;
  const Dim batch{"batch", 8}, classes{"classes", 10};
  const Tensor image = graph.input("image", {batch, {"in", 4}, {"rows", 8}, {"cols", 8}});
  const Tensor label = graph.input("label", {batch}, DType::i32);
  const Tensor h = relu(conv2d(image, {.out = {"filters", 16}, .window = 3, .padding = same, .name = "conv"}));
  return training(mean(softmax_cross_entropy(dense(h, {.out = {classes}, .name = "head"}), label, classes)),
                  Sgd{.learning_rate = 0.1});
}

const LayerSeconds& layer_of(const StepByLayer& step, const std::string& name) {
  for (const LayerSeconds& layer : step.layers)
    if (layer.layer == name) return layer;
  throw std::runtime_error(name);
}

}  // namespace

TEST_CASE("layers: a layer waits for what its own tensors bring; a rank without a part takes no time") {
  const Mesh mesh = mesh_of({{"all", 3}});
  const Profile profile = testing::synthetic_profile(mesh, {1, 0.5, 0.5}, 1e9);
  const Plan plan = balance(small_step(), mesh, {{"filters", "all", Sizes{{12, 4, 0}}}}, profile);
  const StepByLayer step = layer_seconds(plan.data(), profile);
  const LayerSeconds& conv = layer_of(step, "conv");
  CHECK(conv.busy[0] == Approx(conv.busy[1] * 1.5).epsilon(0.2));  // 12 filters at twice the rate of 4
  CHECK(conv.busy[2] == 0);
  CHECK(layer_of(step, "head").exchange_seconds() > 0);  // partial sums over the filters
  const std::string table = plan.table(profile);
  for (const char* part : {"layers  ", "  conv  ", "  head  ", "    rank 2   exchange  share\n"})
    CHECK(table.find(part) != std::string::npos);
  CHECK(plan.table().find("\nlayers") == std::string::npos);
}

TEST_CASE("layers: without a profile there are none, and nothing is estimated or bounded") {
  const Mesh mesh = mesh_of({{"all", 2}});
  const Plan plan = balance(small_step(), mesh, {{"filters", "all", Sizes{{12, 4}}}}, {});
  CHECK(layer_seconds(plan.data(), {}).layers.empty());
  CHECK(layer_table(layer_seconds(plan.data(), {}), PlanDetail::summary).empty());
  CHECK(std::holds_alternative<std::nullptr_t>(layers_json(layer_seconds(plan.data(), {})).value));
  CHECK(least_step_seconds(plan.data(), {}) == 0);
  CHECK(!estimated_share(plan.data()));
}

TEST_CASE("layers: at most 20 rows, the slowest first, the last of them for the rest") {
  StepByLayer step{10, {}};
  for (int k = 1; k <= 25; k++) step.layers.push_back({"layer_" + std::to_string(k), {0.01 * k, 0}, {0, 0.001 * k}});
  const std::string table = layer_table(step, PlanDetail::summary), full = layer_table(step, PlanDetail::full);
  CHECK(std::count(table.begin(), table.end(), '\n') == 21);
  CHECK(table.find("layer_25 ") < table.find("layer_24 "));
  CHECK(table.find("  and 6 more; --full lists them        210.0 ms          -    21.0 ms    2 %\n") != std::string::npos);
  CHECK(std::count(full.begin(), full.end(), '\n') == 26);
  step.layers.resize(20);
  CHECK(layer_table(step, PlanDetail::summary).find("more") == std::string::npos);
}

TEST_CASE("predictions: the share of kernels that were not measured") {
  const Mesh mesh = mesh_of({{"all", 2}});
  Profile profile = testing::synthetic_profile(mesh, {1, 0.5}, 1e9);
  const LayoutRules rules{{"filters", "all", Sizes{{12, 4}}}};
  const Plan plan = balance(small_step(), mesh, rules, profile);
  CHECK(*estimated_share(plan.data()) > 0.9);
  CHECK(plan.table().find("estimated: kernels that were not measured") != std::string::npos);
  CHECK(plan.json().find("\"estimated_share\"") != std::string::npos);
  for (const KernelSpec& spec : kernels_as_run(plan.data(), 0))
    if (flops(spec) > 0) profile.add({0, spec, {1e-3, 1e-3, 1e-3, 5}, "synthetic"});
  const PlanData half = predicted(plan.data(), profile);  // the same plan: another would run other kernels
  CHECK(half.predicted[0].estimated_seconds == 0);
  CHECK(half.predicted[1].estimated_seconds > 0);
  CHECK(*estimated_share(half) < *estimated_share(plan.data()));
}

TEST_CASE("predictions: one rank alone takes what its best rates allow; devices that are good at unlike ops are bounded rightly") {
  const Mesh one = mesh_of({{"all", 1}});
  const Profile alone = testing::synthetic_profile(one, {0.3}, 1e9);
  const Plan plan = balance(small_step(), one, {}, alone);
  CHECK(least_step_seconds(plan.data(), alone) == Approx(*plan.data().step_seconds).epsilon(0.02));
  // Rank 0 is fast at convolutions and rank 1 at dense layers: each has its layer.
  const Mesh two = mesh_of({{"all", 2}});
  Profile unlike = testing::synthetic_profile(two, {0.01, 0.01}, 1e12);
  for (const KernelPoint& p : std::vector<KernelPoint>(unlike.kernels()))
    if ((p.device == 0) == (p.spec.op == KernelOp::conv2d)) {
      KernelPoint faster = p;
      for (double* s : {&faster.seconds.min, &faster.seconds.q25, &faster.seconds.median}) *s /= 1000;
      unlike.add(faster);
    }
  LayoutRules rules;
  rules.place("head", {two.device(1).name}).place("conv", {two.device(0).name});
  const Plan placed = balance(small_step(), two, rules, unlike, {.baselines = false});
  CHECK(least_step_seconds(placed.data(), unlike) <= *placed.data().step_seconds);
}
