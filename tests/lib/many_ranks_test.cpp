// SPDX-License-Identifier: Apache-2.0
// What planning for many ranks costs, counted.
#include <motley/ops.h>
#include <motley/program.h>
#include <catch2/catch.hpp>

#include "plan/plan_data.h"
#include "program/compile.h"
#include "tests/support/allocations.h"

using namespace motley;
using motley::testing::allocations;

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
