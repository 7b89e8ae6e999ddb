// SPDX-License-Identifier: Apache-2.0
// Layout law, pick law and plan law: random networks under random layouts equal the unsharded network, and count the bytes that
// were planned. Seeded; a failure prints its number and the smallest case near it that fails too.
#include <motley/error.h>
#include <motley/ops.h>
#include <motley/program.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "plan/plan_data.h"
#include "tests/support/random_network.h"
#include "tests/support/run_plan.h"
#include "tests/support/shrink.h"

using namespace motley;
using namespace motley::law;

namespace {

// One to three axes of up to `most` ranks in all.
std::vector<Axis> random_axes(Random& random, int most) {
  static const char* names[] = {"a", "b", "c"};
  std::vector<Axis> axes;
  int ranks = 1;
  for (Index i = 0, n = pick(random, 1, 3); i < n; i++) {
    axes.push_back({names[i], static_cast<int>(pick(random, 1, std::max(1, most / ranks)))});
    ranks *= axes.back().size;
  }
  return axes;
}

}  // namespace

TEST_CASE(
    "a tensor that several read in several layouts is sent once per layout, and its memory serves others after the last reader",
    "[law]") {
  const Dim batch{"batch", 12}, in{"in", 6}, a{"a", 6}, b{"b", 6}, c{"c", 6};
  for (const bool twice : {false, true}) {
    Graph g;
    const Tensor x = dense(g.input("x", {batch, in}), {.out = {a}, .name = "x1"});
    // Read whole by two layers whose outputs are cut, and by one along another cut of the batch.
    Tensor sum_of =
        add({sum(dense(x, {.out = {b}})), sum(dense(x, {.out = {twice ? c : b}, .name = "again"})), sum(relu(x, {"other"}))});
    const Step step = training(sum_of, Sgd{});
    LayoutRules rules{{b, "all", Sizes{{2, 3, 1}}}, {a, "all", Sizes{{4, 1, 1}}}};
    if (twice) rules.split.push_back({c, "all", Sizes{{1, 4, 1}}});
    rules.tensor("other", {{batch, "all", Sizes{{2, 2, 8}}}, {a, Axes()}});
    const Plan plan = balance(step, mesh_of({{"all", 3}}), rules, {}, {.dtype = DType::f64});
    const int t = plan.data().passes.find("x1");
    const TensorPlan& tensor = plan.data().tensors[static_cast<std::size_t>(t)];
    Index moved = 0, lacked = 0;  // by hand: what each rank reads of x1 in any of its passes, and does not have
    for (const BoxMessage& m : tensor.fill.messages) moved += m.from == m.to ? 0 : volume(m.box);
    for (int r = 0; r < 3; r++)
      for (Index i = 0; i < 12; i++)
        for (Index k = 0; k < 6; k++) {
          const Box at{{i, i + 1}, {k, k + 1}};
          bool has = false, reads = false;
          for (const Shard& h : tensor.home) has = has || (h.rank == r && contains(h.box, at));
          for (std::size_t p = 0; p < plan.data().passes.passes.size(); p++)
            for (const PassOperand& o : plan.data().passes.passes[p].reads) {
              const auto& work = plan.data().pass_plans[p].work;
              if (o.tensor != t || work.empty() || !work[static_cast<std::size_t>(r)].any) continue;
              const auto& box = work[static_cast<std::size_t>(r)].box;
              reads =
                  reads || contains({box[static_cast<std::size_t>(o.indices[0])], box[static_cast<std::size_t>(o.indices[1])]}, at);
            }
          lacked += reads && !has ? 1 : 0;
        }
    CHECK(moved > 0);
    CHECK(moved == lacked);
  }
  // Each of ten links of a chain is read once: three of them are there at a time at most.
  Graph g;
  Tensor chain = g.input("x", {batch, in});
  for (int i = 0; i < 10; i++) chain = i % 2 == 0 ? relu(chain) : sigmoid(chain);
  const Plan plan = balance(inference({chain}), mesh_of({{"one", 1}}), {}, {}, {.dtype = DType::f64});
  CHECK(compile(plan, 0).arena_bytes <= 3 * 12 * 6 * 8);
}

TEST_CASE("layout law: one cut axis, any dims, any parts", "[law]") {
  int refused = 0;
  for (unsigned number = 0; number < share_of(150U); number++) {
    Random random(number);
    Case one{random_recipe(random), {{"all", static_cast<int>(pick(random, 1, 4))}}, {}, 0};
    one.cuts = random_cuts(random, build(one.net), one.axes, {.often = 0.45, .spatial = 0.3});
    INFO("case " << number);
    CHECK(broken(one, &refused) == "");
  }
  CHECK(refused < 75);
}

TEST_CASE("layout law: several axes, dims over two axes, jagged cuts", "[law]") {
  int refused = 0;
  for (unsigned number = 1000; number < 1000 + share_of(200U); number++) {
    Random random(number);
    Case one{random_recipe(random), random_axes(random, 6), {}, 0};
    one.cuts = random_cuts(random, build(one.net), one.axes, {.nested = 0.2, .jagged = 0.25});
    INFO("case " << number);
    CHECK(broken(one, &refused) == "");
  }
  CHECK(refused < 100);
}

TEST_CASE("layout law: any schedule of every exchange, on one to three hosts", "[law]") {
  int refused = 0;
  for (unsigned number = 40000; number < 40000 + share_of(120U); number++) {
    Random random(number);
    Case one{random_recipe(random),        random_axes(random, number % 8 == 0 ? 16 : 6), {},
             number % 2 == 0 ? 0 : number, static_cast<int>(pick(random, 1, 3)),          number};
    one.cuts = random_cuts(random, build(one.net), one.axes, {.often = 0.45, .nested = 0.1, .jagged = 0.15});
    INFO("case " << number);
    CHECK(broken(one, &refused) == "");
  }
  CHECK(refused < 50);
}

TEST_CASE("layout law: many ranks", "[law]") {
  const std::vector<std::vector<Axis>> meshes{
      {{"a", 4}, {"b", 4}, {"c", 4}}, {{"a", 16}, {"b", 2}}, {{"a", 3}, {"b", 3}, {"c", 2}}};
  for (unsigned number = 0; number < 6; number++) {
    Random random(3000 + number);
    Case one{random_recipe(random), meshes[number % 3], {}, 3000 + number};
    one.cuts = random_cuts(random, build(one.net), one.axes, {.often = 0.5, .spatial = 0.9, .jagged = 0.2});
    INFO("case " << number);
    CHECK(broken(one) == "");
  }
}

// More partials than the CPU's loops read at a time, one part empty or none, read in place and sent.
TEST_CASE("layout law: data parallel on 65 and 66 ranks through the CPU backend's sums, bit for bit", "[law]") {
  for (const bool empty : {false, true}) {
    const int ranks = empty ? 66 : 65;
    std::vector<Index> parts(static_cast<std::size_t>(ranks), 1);
    parts[3] = 4;
    if (empty) parts[7] = 0;
    const Dim batch{"batch", 68}, in{"in", 5}, hidden{"hidden", 6}, out{"out", 3};
    Graph g;
    const Tensor h = relu(dense(g.input("x", {batch, in}), {.out = {hidden}}));
    const Step step = training(sum(dense(h, {.out = {out}})), Sgd{.learning_rate = 0.0625, .momentum = 0.5});
    const Plan one = balance(step, mesh_of({{"one", 1}}), {}, {});
    const Plan many = balance(step, mesh_of({{"all", ranks}}), LayoutRules{{batch, "all", Sizes{parts}}}, {});
    std::size_t most = 0;
    for (int r = 0; r < ranks; r++)
      for (const ProgramStep& s : compile(many, r).steps)
        if (const auto* kernel = std::get_if<RunKernel>(&s.what)) most = std::max(most, kernel->spec.operands.size());
    CHECK(most == 66);  // the partials and the sum
    const Outcome truth = run_plan(one, {.integers = true, .cpu_backend = true});
    for (const bool share : {true, false}) {
      const Outcome cut = run_plan(many, {.integers = true, .cpu_backend = true, .program = {.share = share}});
      CHECK(difference(cut, truth) == 0);
      for (std::size_t r = 0; r < cut.counted.size(); r++) CHECK(cut.counted[r] == many.data().predicted[r].bytes);
    }
  }
}

TEST_CASE("layout law: jagged cuts of neighbouring layers along each other's axes", "[law]") {
  for (int number = 0; number < share_of(60); number++) {
    Random random(static_cast<unsigned>(70000 + number));
    const Network net = build(random_recipe(random));
    const Step step = training(net.loss, Sgd{.learning_rate = 0.05, .momentum = 0.9});
    const Mesh mesh = mesh_of({{"x", 2}, {"y", 2}});
    LayoutRules rules;
    for (const Dim& d : net.dims) {
      if (d.name == "batch" || chance(random, 0.2)) continue;
      const bool on_x = chance(random, 0.5);
      rules.split.push_back({d, on_x ? "x" : "y", Jagged{{parts(random, d.size, 2), parts(random, d.size, 2)}, on_x ? "y" : "x"}});
    }
    INFO("case " << number);
    const Plan one = balance(step, mesh_of({{"one", 1}}), {}, {}, {.dtype = DType::f64});
    try {
      const Plan many = balance(step, mesh, rules, {}, {.dtype = DType::f64});
      CHECK(difference(run_plan(many), run_plan(one)) < 1e-11);
    } catch (const UserError& e) {
      REQUIRE(std::string(e.what()).find("cannot both be cut") != std::string::npos);
    }
  }
}

TEST_CASE("layout law: layers placed on some ranks", "[law]") {
  for (int number = 0; number < share_of(60); number++) {
    Random random(static_cast<unsigned>(5000 + number));
    const Network net = build(random_recipe(random));
    const Step step = training(net.loss, Sgd{.learning_rate = 0.05, .momentum = 0.9});
    const int ranks = static_cast<int>(pick(random, 2, 4));
    const Mesh mesh = mesh_of({{"all", ranks}});
    LayoutRules rules;
    for (const Dim& d : net.dims)
      if (chance(random, 0.3)) rules.split.push_back({d, "all", CutBy::even});
    std::string shown;
    for (const StepTensor& t : step.passes().tensors) {
      if (t.role != TensorRole::activation || t.name != t.layer || !chance(random, 0.3)) continue;
      const Index first = pick(random, 0, ranks - 1), last = pick(random, first, ranks - 1);
      std::vector<std::string> names;
      for (Index r = first; r <= last; r++) names.push_back("rank " + std::to_string(r));
      rules.place(t.layer, names);
      shown += t.layer + "@" + std::to_string(first) + "-" + std::to_string(last) + " ";
    }
    INFO("case " << number << " " << shown);
    const Plan one = balance(step, mesh_of({{"one", 1}}), {}, {}, {.dtype = DType::f64});
    Plan many = one;
    try {
      many = balance(step, mesh, rules, {}, {.dtype = DType::f64});
    } catch (const UserError& e) {
      REQUIRE(std::string(e.what()).find("cannot both be cut") != std::string::npos);
      continue;
    }
    const Outcome truth = run_plan(one), cut = run_plan(many);
    CHECK(difference(cut, truth) < 1e-11);
    for (int r = 0; r < ranks; r++)
      CHECK(cut.counted[static_cast<std::size_t>(r)] == many.data().predicted[static_cast<std::size_t>(r)].bytes);
  }
}

TEST_CASE("pick law: every legal pick of every pass gives the same result", "[law]") {
  for (unsigned number = 9000; number < 9000 + share_of(200U); number++) {
    Random random(number);
    Case one{random_recipe(random), random_axes(random, 6), {}, number};
    one.cuts = random_cuts(random, build(one.net), one.axes, {.often = 0.4, .nested = 0.1, .jagged = 0.1});
    INFO("case " << number);
    CHECK(broken(one) == "");
  }
}

TEST_CASE("exact law: small integers through the kernels, formats and exchanges users run, bit for bit", "[law]") {
  for (unsigned number = 20000; number < 20000 + share_of(120U); number++) {
    Random random(number);
    Case one{random_integer_recipe(random), random_axes(random, 4),           {},
             number % 2 == 0 ? 0 : number,  1 + static_cast<int>(number % 3), number % 4 == 0 ? 0 : number};
    one.cuts = random_cuts(random, build(one.net), one.axes, {.often = 0.5, .spatial = 0.4, .jagged = 0.1});
    INFO("case " << number);
    CHECK(broken(one) == "");
  }
}

TEST_CASE("a failing case is made small") {
  Random random(5);
  Case one{random_recipe(random), {{"a", 3}, {"b", 2}}, {}, 7};
  one.net.layers.resize(3, one.net.layers.front());
  for (Index i = 0; i < 3; i++) one.net.layers[static_cast<std::size_t>(i)].id = i;
  one.net.layers[2].rows.window = 4;
  one.cuts = {{"batch", {"b"}, "", {{1, 1}}}, {"rows", {"a"}, "b", {{4, 1, 5}, {7, 0, 3}}}};
  const Case least = smallest(one, [](const Case& c) {
    const bool cut =
        std::any_of(c.cuts.begin(), c.cuts.end(), [](const CutRecipe& r) { return r.dim == "rows" && r.parts.front().size() > 1; });
    return cut && std::any_of(c.net.layers.begin(), c.net.layers.end(), [](const Layer& l) { return l.rows.window > 1; });
  });
  const std::string text = to_text(least);
  INFO(text);
  CHECK(least.net.layers.size() == 1);
  CHECK(least.net.layers.front().rows.window == 2);
  CHECK(text.ends_with("| mesh a=2 | rows over a [1 1]"));
}
