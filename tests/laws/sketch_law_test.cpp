// SPDX-License-Identifier: Apache-2.0
// Sketch law: what a Sketcher keeps from one sketch to the next changes none; on one rank a sketch is the sum of its kernels; and
// the least sketches belong to the fastest plans of parts that are not empty.
#include <motley/ops.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "balance/choose_parts.h"
#include "plan/sketch.h"
#include "program/predict.h"
#include "tests/support/random_network.h"
#include "tests/support/synthetic_profile.h"

using namespace motley;
using namespace motley::law;

namespace {

Step network() {
  Graph graph;
  const Dim batch{"batch", 24}, classes{"classes", 10};
  const Tensor label = graph.input("label", {batch}, DType::i32);
  Tensor h = graph.input("image", {batch, {"in", 16}, {"rows", 16}, {"cols", 16}});
  h = relu(conv2d(h, {.out = {"f0", 96}, .window = 3, .padding = same}));
  h = max_pool2d(relu(conv2d(h, {.out = {"f1", 128}, .window = 3, .padding = same})), {.window = 2});
  h = relu(dense(h, {.out = {{"hidden", 160}}}));
  return training(mean(softmax_cross_entropy(dense(h, {.out = {classes}}), label, classes)), Sgd{.learning_rate = 0.1});
}

std::vector<Index> random_parts(Random& random, Index size, int ranks, Index least = 0) {
  std::vector<double> shares;
  for (int r = 0; r < ranks; r++) shares.push_back(static_cast<double>(pick(random, least, 8)));
  shares.front() += 1;
  return Partition::proportional(size, shares).sizes();
}

LayoutRules with_sizes(std::vector<std::pair<std::string, std::vector<Index>>> dims) {
  LayoutRules out;
  for (auto& [dim, sizes] : dims) {
    out.split.emplace_back(dim, "a");
    out.split.back().parts = Sizes{std::move(sizes)};
  }
  return out;
}

}  // namespace

TEST_CASE("sketch law: what is kept changes no sketch", "[law]") {
  const Step step = network();
  Random random(20261129);
  for (int n = 0; n < share_of(6); n++) {
    const int ranks = static_cast<int>(pick(random, 2, 4)), hosts = static_cast<int>(pick(random, 1, 2));
    const Mesh mesh = mesh_of({{"a", ranks}}, hosts);
    const Profile profile = testing::random_profile(mesh, random);
    const bool by_batch = n % 2 == 0;
    const auto rules = [&] {
      return by_batch ? with_sizes({{"batch", random_parts(random, 24, ranks)}})
                      : with_sizes({{"f0", random_parts(random, 96, ranks)}, {"hidden", random_parts(random, 160, ranks)}});
    };
    const LayoutRules first = rules();
    const Passes passes = passes_for(step, first);
    const Cost cost = cost_for(passes, mesh, profile, DType::f32);
    const PlanData plan = plan_with(passes, mesh, first, profile, DType::f32, &cost);
    Sketcher kept(plan, mesh, cost);
    for (int k = 0; k < 8; k++) {
      const LayoutRules other = rules();
      Sketcher fresh(plan, mesh, cost);
      const Sketch a = kept.of(other), b = fresh.of(other), again = kept.of(other);
      INFO("case " << n << ", sketch " << k);
      CHECK(a.seconds == b.seconds);
      CHECK(a.busy == b.busy);
      CHECK(again.seconds == b.seconds);
    }
  }
}

TEST_CASE("sketch law: on one rank a sketch is the sum of its kernels", "[law]") {
  const Step step = network();
  Random random(20261130);
  const Mesh mesh = mesh_of({{"a", 1}}, 1);
  const Profile profile = testing::random_profile(mesh, random);
  const Passes passes = passes_for(step, {});
  const Cost cost = cost_for(passes, mesh, profile, DType::f32);
  const PlanData plan = plan_with(passes, mesh, {}, profile, DType::f32, &cost);
  const Sketch sketch = Sketcher(plan, mesh, cost).of({});
  const double sum = seconds_alone(passes, mesh, cost).front();
  CHECK(sketch.seconds == Approx(sum).epsilon(1e-12));
  CHECK(sketch.busy.front() == Approx(sum).epsilon(1e-12));
}

TEST_CASE("sketch law: the least sketches belong to the fastest plans", "[law]") {
  const Step step = network();
  Random random(20261201);
  for (int n = 0; n < share_of(4); n++) {
    const int hosts = 1 + n % 2;
    const Mesh mesh = mesh_of({{"a", 3}}, hosts);
    const Profile profile = testing::synthetic_profile(mesh, {1, 0.6, 0.3}, 10e9);
    const bool by_batch = n < 2;
    std::vector<LayoutRules> all;
    for (int k = 0; k < 20; k++)
      all.push_back(by_batch ? with_sizes({{"batch", random_parts(random, 24, 3, 1)}})
                             : with_sizes({{"f0", random_parts(random, 96, 3, 1)}, {"f1", random_parts(random, 128, 3, 1)}}));
    const LayoutRules even =
        by_batch ? with_sizes({{"batch", {8, 8, 8}}}) : with_sizes({{"f0", {32, 32, 32}}, {"f1", {43, 43, 42}}});
    const Passes passes = passes_for(step, even);
    const Cost cost = cost_for(passes, mesh, profile, DType::f32);
    const PlanData like = plan_with(passes, mesh, even, profile, DType::f32, &cost);
    Sketcher sketches(like, mesh, cost);
    std::vector<std::pair<double, double>> seconds;  // of the sketch, of the plan
    for (const LayoutRules& rules : all)
      seconds.emplace_back(sketches.of(rules).seconds,
                           *predicted(plan_with(passes, mesh, rules, profile, DType::f32, &cost), profile).step_seconds);
    std::sort(seconds.begin(), seconds.end());
    double best = seconds.front().second, of_three = best;
    for (std::size_t k = 0; k < seconds.size(); k++) {
      best = std::min(best, seconds[k].second);
      if (k < 3) of_three = std::min(of_three, seconds[k].second);
    }
    INFO("case " << n);
    CHECK(of_three <= best * 1.03);
  }
}
