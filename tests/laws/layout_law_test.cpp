// SPDX-License-Identifier: Apache-2.0
// Layout law, pick law and plan law: random networks under random layouts on 1-4 ranks equal the unsharded network, and count the
// bytes that were planned. Seeded; a failure prints its number.
#include <motley/error.h>
#include <motley/ops.h>

#include <catch2/catch.hpp>
#include <optional>

#include "laws/random_network.h"
#include "laws/run_plan.h"
#include "plan/plan_data.h"
#include "plan/planner.h"

using namespace motley;
using namespace motley::law;

TEST_CASE("layout law: one cut axis, any dims, any parts", "[law]") {
  const int cases = 150;
  for (int number = 0; number < cases; number++) {
    Random random(static_cast<unsigned>(number));
    const Network net = network(random);
    const Step step = training(net.loss, Sgd{.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 1e-3});
    const int ranks = static_cast<int>(pick(random, 1, 4));
    const Mesh mesh = mesh_of({{"all", ranks}});
    LayoutRules rules;
    std::string shown;
    for (const Dim& d : net.dims)
      if (chance(random, 0.45)) {
        const auto cut = parts(random, d.size, ranks);
        rules.split.push_back({d, "all", Sizes{cut}});
        shown += d.name + ":";
        for (Index c : cut) shown += std::to_string(c) + ",";
        shown += " ";
      }
    INFO("case " << number << ", " << ranks << " ranks, " << shown);
    Plan one = balance(step, mesh_of({{"one", 1}}), {}, {}, {.dtype = DType::f64});
    Plan many = one;
    try {
      many = balance(step, mesh, rules, {}, {.dtype = DType::f64});
    } catch (const UserError& e) {
      REQUIRE(std::string(e.what()).find("cannot both be cut") != std::string::npos);
      continue;
    }
    const Outcome truth = run_plan(one), cut = run_plan(many);
    CHECK(difference(cut, truth) < 1e-11);
    for (int r = 0; r < ranks; r++) CHECK(cut.counted[static_cast<std::size_t>(r)] == many.data().predicted[static_cast<std::size_t>(r)].bytes);
  }
}

TEST_CASE("layout law: several axes, dims over two axes, jagged cuts", "[law]") {
  const int cases = 150;
  int refused = 0;
  for (int number = 0; number < cases; number++) {
    Random random(static_cast<unsigned>(1000 + number));
    Network net = network(random);
    const Step step = training(net.loss, Sgd{.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 1e-3});
    std::vector<Axis> axes{{"a", static_cast<int>(pick(random, 1, 3))}, {"b", 2}};
    if (chance(random, 0.2)) axes = {{"a", 2}, {"b", 1}, {"c", 2}};
    const Mesh mesh = mesh_of(axes);
    LayoutRules rules;
    std::string shown = std::to_string(axes.size()) + " axes ";
    for (const Dim& d : net.dims) {
      if (!chance(random, 0.3)) continue;
      const Axis& axis = axes[static_cast<std::size_t>(pick(random, 0, static_cast<Index>(axes.size()) - 1))];
      const Axis& other = axes[axis.name == "a" ? 1 : 0];
      if (chance(random, 0.2)) {
        rules.split.push_back({d, Axes(std::vector<std::string>{axis.name, other.name}), Sizes{parts(random, d.size, axis.size * other.size)}});
      } else if (chance(random, 0.25)) {
        Jagged jagged{{}, other.name};
        for (int i = 0; i < other.size; i++) jagged.of.push_back(parts(random, d.size, axis.size));
        rules.split.push_back({d, axis.name, jagged});
      } else {
        rules.split.push_back({d, axis.name, Sizes{parts(random, d.size, axis.size)}});
      }
      shown += d.name + "@" + axis.name + " ";
    }
    INFO("case " << number << " " << shown);
    Plan one = balance(step, mesh_of({{"one", 1}}), {}, {}, {.dtype = DType::f64});
    Plan many = one;
    try {
      many = balance(step, mesh, rules, {}, {.dtype = DType::f64});
    } catch (const UserError& e) {
      REQUIRE(std::string(e.what()).find("cannot both be cut") != std::string::npos);
      refused++;
      continue;
    }
    const Outcome truth = run_plan(one), cut = run_plan(many);
    CHECK(difference(cut, truth) < 1e-11);
    for (int r = 0; r < mesh.ranks(); r++) CHECK(cut.counted[static_cast<std::size_t>(r)] == many.data().predicted[static_cast<std::size_t>(r)].bytes);
  }
  CHECK(refused < cases / 2);
}

TEST_CASE("layout law: jagged cuts of neighbouring layers along each other's axes", "[law]") {
  for (int number = 0; number < 60; number++) {
    Random random(static_cast<unsigned>(70000 + number));
    const Network net = network(random);
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
  for (int number = 0; number < 60; number++) {
    Random random(static_cast<unsigned>(5000 + number));
    const Network net = network(random);
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
    for (int r = 0; r < ranks; r++) CHECK(cut.counted[static_cast<std::size_t>(r)] == many.data().predicted[static_cast<std::size_t>(r)].bytes);
  }
}

TEST_CASE("pick law: every legal pick of every pass gives the same result", "[law]") {
  for (int number = 0; number < 120; number++) {
    Random random(static_cast<unsigned>(9000 + number));
    const Network net = network(random);
    const Step step = training(net.loss, Sgd{.learning_rate = 0.05, .momentum = 0.9});
    const bool two = chance(random, 0.5);
    const Mesh mesh = two ? mesh_of({{"a", 2}, {"b", 2}}) : mesh_of({{"a", static_cast<int>(pick(random, 2, 4))}});
    LayoutRules rules;
    for (const Dim& d : net.dims) {
      const Axis& axis = mesh.axes()[static_cast<std::size_t>(pick(random, 0, static_cast<Index>(mesh.axes().size()) - 1))];
      if (chance(random, 0.4)) rules.split.push_back({d, axis.name, Sizes{parts(random, d.size, axis.size)}});
    }
    INFO("case " << number);
    const Passes passes = passes_for(step, rules);
    std::optional<Layouts> layouts;
    try {
      layouts.emplace(passes, mesh, rules);
    } catch (const UserError&) {
      continue;
    }
    for (int p : passes.parameters) layouts->choose(p, static_cast<std::size_t>(pick(random, 0, static_cast<Index>(layouts->options(p)) - 1)));
    const Profile none;
    const Cost cost(passes, mesh, none, std::vector<double>(static_cast<std::size_t>(mesh.ranks()), 1.0), DType::f64, choose_formats(passes, DType::f64));
    Sweeper sweeper(passes, mesh, *layouts, cost);
    std::map<int, Pick> picks;
    for (int p = 0; p < static_cast<int>(passes.passes.size()); p++) {
      const auto all = sweeper.candidates(p);
      picks[p] = all[static_cast<std::size_t>(pick(random, 0, static_cast<Index>(all.size()) - 1))];
    }
    const Plan many = plan_from(step, mesh, data_of(passes, mesh, *layouts, sweeper.run(picks), DType::f64));
    const Plan one = balance(step, mesh_of({{"one", 1}}), {}, {}, {.dtype = DType::f64});
    const Outcome truth = run_plan(one), cut = run_plan(many);
    CHECK(difference(cut, truth) < 1e-11);
    for (int r = 0; r < mesh.ranks(); r++) CHECK(cut.counted[static_cast<std::size_t>(r)] == many.data().predicted[static_cast<std::size_t>(r)].bytes);
  }
}

TEST_CASE("exact law: small integers through the kernels, formats and exchanges users run, bit for bit", "[law]") {
  for (int number = 0; number < 80; number++) {
    Random random(static_cast<unsigned>(20000 + number));
    Graph graph;
    const Dim batch{"batch", pick(random, 2, 4)}, in{"in", pick(random, 1, 3)}, rows{"rows", pick(random, 5, 8)}, cols{"cols", pick(random, 5, 8)};
    Tensor h = graph.input("image", {batch, in, rows, cols});
    std::vector<Dim> dims{batch, rows, cols};
    for (int i = 0; i < 2; i++) {
      const Dim f{"f" + std::to_string(i), pick(random, 3, 19)};
      dims.push_back(f);
      const Tensor c = conv2d(h, {.out = f, .window = pick(random, 1, 3), .padding = same, .bias = chance(random, 0.7)});
      h = chance(random, 0.5) ? relu(c) : add(c, conv2d(h, {.out = f, .window = 1}));
      if (i == 0 && chance(random, 0.5)) h = max_pool2d(h, {.window = 2, .stride = pick(random, 1, 2)});
    }
    const Dim out{"out", pick(random, 2, 9)};
    dims.push_back(out);
    if (chance(random, 0.3)) h = flatten(h, "flat");
    const Step step = training(sum(dense(h, {.out = {out}})), Sgd{.learning_rate = 1, .momentum = 0});
    const int ranks = static_cast<int>(pick(random, 1, 4));
    LayoutRules rules;
    for (const Dim& d : dims)
      if (chance(random, 0.5)) rules.split.push_back({d, "all", Sizes{parts(random, d.size, ranks)}});
    INFO("case " << number);
    try {
      const Plan many = balance(step, mesh_of({{"all", ranks}}), rules, {});
      const Plan one = balance(step, mesh_of({{"one", 1}}), {}, {}, {.dtype = DType::f64});
      const Outcome truth = run_plan(one, {.steps = 1, .integers = true}), cut = run_plan(many, {.steps = 1, .integers = true, .cpu_backend = true});
      CHECK(difference(cut, truth) == 0);
    } catch (const UserError& e) {
      REQUIRE(std::string(e.what()).find("cannot both be cut") != std::string::npos);
    }
  }
}
