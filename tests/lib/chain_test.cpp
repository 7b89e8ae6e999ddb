// SPDX-License-Identifier: Apache-2.0
// Maps that run block by block: which do, and that no bit changes by the loops that users run.
#include <motley/motley.h>

#include <catch2/catch.hpp>

#include "tests/support/run_plan.h"

using namespace motley;

namespace {

// Rows of 64 features: a layer norm, an RMS norm and a softmax, each of 2.4 MB.
Step norms_of_rows(Index rows) {
  Graph graph;
  const Tensor x = graph.input("x", {{"batch", rows}, {"in", 8}});
  Tensor h = dense(x, {.out = {{"features", 64}}, .name = "first"});
  h = layer_norm(h, {.over = {h.shape()[1]}, .name = "ln"});
  h = dense(h, {.out = {{"more", 64}}, .name = "second"});
  h = rms_norm(h, {.over = {h.shape()[1]}, .name = "rms"});
  h = softmax(dense(h, {.out = {{"classes", 64}}, .name = "third"}), {.name = "soft"});
  return training(sum(dense(h, {.out = {{"last", 2}}, .name = "fourth"})), Sgd{.learning_rate = 1e-6});
}

const Chain* chain_of(const Program& program, const std::string& pass) {
  for (const Chain& c : program.chains)
    for (int s = c.begin; s < c.end; s++)
      if (std::get<RunKernel>(program.steps[static_cast<std::size_t>(s)].what).pass == pass) return &c;
  return nullptr;
}

}  // namespace

TEST_CASE("chains: norms and a softmax of more than a cache run block by block, with the same bits", "[chain]") {
  for (const int ranks : {1, 2}) {
    const Plan plan = balance(norms_of_rows(9403), Mesh({{"all", ranks}}, std::vector<Device>(static_cast<std::size_t>(ranks))),
                              ranks == 1 ? LayoutRules{} : LayoutRules{{"batch", "all", CutBy::even}}, {});
    const Program program = compile(plan, 0);
    for (const std::string pass : {"ln forward", "rms forward", "soft forward"}) {
      if (ranks > 1) continue;  // halves of them fit a cache
      const Chain* chain = chain_of(program, pass);
      INFO(pass);
      REQUIRE(chain != nullptr);
      CHECK(chain->end - chain->begin > 1);
      const Chain::Part& part = chain->parts.back();
      CHECK(part.spec.extents.front() * (chain->blocks - 1) + part.last.extents.front() == 9403);
    }
    for (const Chain& c : program.chains)  // what lives in a chain's steps lives through all of them
      for (const Buffer& b : program.buffers)
        if (b.space == Space::arena && b.first >= 0) {
          CHECK((b.first <= c.begin || b.first >= c.end));
          CHECK((b.last < c.begin || b.last >= c.end - 1));
        }
    const auto run = [&](Chained chain) { return run_plan(plan, {.steps = 2, .cpu_backend = true, .program = {.chain = chain}}); };
    const Outcome with = run(Chained::paying), all = run(Chained::all), without = run(Chained::none);
    for (const Outcome* its : {&with, &all}) {
      CHECK(its->loss == without.loss);
      CHECK(its->gradients == without.gradients);
      CHECK(its->weights == without.weights);
    }
  }
}

TEST_CASE("chains: none of small tensors, none where the option says so", "[chain]") {
  const Plan small = balance(norms_of_rows(100), Mesh({{"all", 1}}, {Device{}}), {}, {}),
             large = balance(norms_of_rows(9403), Mesh({{"all", 1}}, {Device{}}), {}, {});
  CHECK(compile(small, 0).chains.empty());
  CHECK_FALSE(compile(small, 0, {.chain = Chained::all}).chains.empty());
  CHECK(compile(large, 0, {.chain = Chained::none}).chains.empty());
}
