// SPDX-License-Identifier: Apache-2.0
// What planning for many ranks costs, counted.
#include <motley/ops.h>
#include <motley/program.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <span>

#include "plan/plan_data.h"
#include "program/compile.h"
#include "tests/support/allocations.h"

using namespace motley;
using motley::testing::allocations;

TEST_CASE("a rank's Program is compiled from its own messages alone") {
  Graph graph;
  const Step step = training(mean(dense(graph.input("image", {{"batch", 64}, {"in", 64}}), {.out = {{"f", 64}}})), Sgd{});
  std::vector<Device> devices(16);
  for (std::size_t r = 0; r < devices.size(); r++) devices[r].host = "host " + std::to_string(r / 4);
  const Plan plan = balance(step, Mesh({{"all", 16}}, devices), LayoutRules{{"batch", "all", CutBy::even}}, {});
  const CommonPlan common = plan.data();
  std::size_t listed = 0, visited = 0;
  const auto count = [&](std::span<const BoxMessage> all, const auto& of) {
    for (const BoxMessage& m : all) listed += m.from == m.to ? 1 : 2;
    for (int r = 0; r < 16; r++) {
      std::vector<const BoxMessage*> own;
      for (const BoxMessage& m : all)
        if (m.from == r || m.to == r) own.push_back(&m);
      const auto found = of(r);
      CHECK(std::equal(found.begin(), found.end(), own.begin(), own.end()));
      visited += found.size();
    }
  };
  for (int t = 0; t < static_cast<int>(plan.data().tensors.size()); t++)
    for (std::size_t hop = 0; hop < kHops.size(); hop++) {
      count((common.plan_of(t).*kHops[hop]).messages, [&](int r) { return common.messages_of(t, hop, r); });
      for (std::size_t k = 0; k < common.stages_of(t)[hop].size(); k++)
        count(common.stages_of(t)[hop][k], [&](int r) { return common.stage_of(t, hop, k, r); });
    }
  CHECK(visited > 1000);
  CHECK(visited == listed);
}

TEST_CASE("what does not depend on the rank is made once for the Programs of all ranks") {
  Graph graph;
  Tensor x = graph.input("image", {{"batch", 64}, {"in", 64}});
  for (int k = 0; k < 4; k++) x = relu(dense(x, {.out = {{"f" + std::to_string(k), 64}}}));
  const Step step = training(mean(x), Sgd{.learning_rate = 0.1});
  struct Count {
    std::size_t common = 0, one = 0;
  };
  const auto count = [&](int ranks) {
    std::vector<Device> devices(static_cast<std::size_t>(ranks));
    for (std::size_t r = 0; r < devices.size(); r++) devices[r].host = "host " + std::to_string(r / 4);
    const Plan plan = balance(step, Mesh({{"all", ranks}}, devices), LayoutRules{{"batch", "all", CutBy::even}}, {});
    Count out;
    allocations() = {};
    const CommonPlan common = plan.data();
    out.common = allocations().count;
    allocations() = {};
    const Program program = compile(common, 1);
    out.one = allocations().count;
    CHECK(program.steps.size() == compile(plan, 1).steps.size());
    return out;
  };
  const Count few = count(16), many = count(32);
  CHECK(many.common > 3 * few.common);  // messages from each rank to each other one
  CHECK(many.one < few.one * 9 / 4);    // those of one rank
}
