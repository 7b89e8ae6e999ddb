// SPDX-License-Identifier: Apache-2.0
// Layouts that the planner chooses: the search on tables finds the least sum, every choice of every layer is a layout that computes
// the network, and what is chosen is predicted no slower than the layouts that a user would guess.
#include <motley/ops.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

#include "balance/choose_layout.h"
#include "balance/eliminate.h"
#include "balance/layout_choices.h"
#include "balance/layout_tables.h"
#include "balance/needed_kernels.h"
#include "plan/check_rules.h"
#include "plan/planner.h"
#include "tests/support/config_files.h"
#include "tests/support/random_network.h"
#include "tests/support/run_plan.h"
#include "tests/support/synthetic_profile.h"

using namespace motley;
using namespace motley::law;

namespace {

struct Tables {
  std::vector<int> values{};
  std::vector<CostTable> list{};
};

// A chain of variables with other tables between some of them; none: each pair, and at times three.
Tables random_tables(Random& random, int variables, double more) {
  Tables out;
  for (int v = 0; v < variables; v++) out.values.push_back(static_cast<int>(pick(random, 1, 4)));
  const auto add = [&](std::vector<int> scope) {
    CostTable t{std::move(scope), {}};
    std::size_t entries = 1;
    for (const int v : t.scope) entries *= static_cast<std::size_t>(out.values[static_cast<std::size_t>(v)]);
    for (std::size_t i = 0; i < entries; i++) t.seconds.push_back(static_cast<double>(pick(random, 0, 1000)));
    out.list.push_back(std::move(t));
  };
  for (int v = 0; v < variables; v++) add({v});
  for (int v = 0; v + 1 < variables; v++) add({v + 1, v});
  for (int a = 0; a < variables; a++)
    for (int b = a + 2; b < variables; b++) {
      if (chance(random, more)) add({a, b});
      if (chance(random, more / 4)) add({a, b - 1, b});
    }
  return out;
}

double sum_of(const Tables& tables, const std::vector<int>& chosen) {
  double sum = 0;
  for (const CostTable& t : tables.list) {
    std::size_t here = 0;
    for (const int v : t.scope)
      here = here * static_cast<std::size_t>(tables.values[static_cast<std::size_t>(v)]) +
             static_cast<std::size_t>(chosen[static_cast<std::size_t>(v)]);
    sum += t.seconds[here];
  }
  return sum;
}

double least_by_hand(const Tables& tables, const std::map<int, int>& forced) {
  std::vector<int> chosen(tables.values.size(), 0);
  double least = std::numeric_limits<double>::infinity();
  for (bool more = true; more;) {
    if (std::all_of(forced.begin(), forced.end(),
                    [&](const auto& one) { return chosen[static_cast<std::size_t>(one.first)] == one.second; }))
      least = std::min(least, sum_of(tables, chosen));
    more = false;
    for (std::size_t v = 0; v < chosen.size() && !more; v++) {
      more = ++chosen[v] < tables.values[v];
      if (!more) chosen[v] = 0;
    }
  }
  return least;
}

struct Chosen {
  Network net{};
  Mesh mesh;
  Step step;
};

Chosen random_network(unsigned number) {
  Random random(number);
  Recipe recipe = random_recipe(random);
  if (number % 3 == 1) recipe = with_norms(recipe, random);
  if (number % 3 == 2) recipe = with_attention(recipe, random);
  Network net = build(recipe);
  const int ranks = static_cast<int>(pick(random, 2, 4));
  Mesh mesh = number % 4 == 0 ? mesh_of({{"a", 2}, {"b", 2}}, 1) : mesh_of({{"a", ranks}}, static_cast<int>(pick(random, 1, 2)));
  Step step = training(net.loss, Sgd{.learning_rate = 0.05});
  return {std::move(net), std::move(mesh), std::move(step)};
}

}  // namespace

TEST_CASE("elimination finds the least sum that trying everything finds, also with values that are given", "[law]") {
  Random random(1);
  for (int n = 0; n < share_of(300); n++) {
    const Tables tables = random_tables(random, static_cast<int>(pick(random, 1, 7)), n % 3 == 0 ? 0.9 : 0.2);
    std::map<int, int> forced;
    if (n % 2 == 1) {
      const auto v = static_cast<int>(pick(random, 0, static_cast<Index>(tables.values.size()) - 1));
      forced[v] = static_cast<int>(pick(random, 0, tables.values[static_cast<std::size_t>(v)] - 1));
    }
    const LeastSum found = least_sum(tables.values, tables.list, forced);
    INFO("case " << n);
    CHECK(found.exact);
    CHECK(found.seconds == least_by_hand(tables, forced));
    CHECK(sum_of(tables, found.values) == found.seconds);
    for (const auto& [v, k] : forced) CHECK(found.values[static_cast<std::size_t>(v)] == k);
  }
}

TEST_CASE("where tables would become too large, the sum is that of the values that were found", "[law]") {
  Random random(2);
  Tables tables = random_tables(random, 14, 1);
  for (int& n : tables.values) n = 4;
  tables.list.clear();
  for (int a = 0; a < 14; a++)
    for (int b = a + 1; b < 14; b++) {
      CostTable t{{a, b}, {}};
      for (int i = 0; i < 16; i++) t.seconds.push_back(static_cast<double>(pick(random, 0, 1000)));
      tables.list.push_back(std::move(t));
    }
  const LeastSum found = least_sum(tables.values, tables.list, {{3, 2}});
  CHECK(!found.exact);
  CHECK(found.values[3] == 2);
  CHECK(sum_of(tables, found.values) == found.seconds);
}

TEST_CASE("any choice of each layer is a layout that computes the network", "[law]") {
  for (unsigned number = 0; number < share_of(60U); number++) {
    const Chosen one = random_network(number);
    const LayoutRules open = LayoutRules::automatic();
    const Passes passes = passes_for(one.step, open);
    const LayoutChoices choices(passes, one.mesh, open);
    Random random(number);
    std::vector<int> chosen;
    for (std::size_t b = 0; b < choices.bundles().list.size(); b++)
      chosen.push_back(static_cast<int>(pick(random, 0, static_cast<Index>(choices.of(static_cast<int>(b)).size()) - 1)));
    const LayoutRules rules = choices.rules(chosen);
    INFO("case " << number << ": " << choices.text(chosen));
    const auto wrong = check_rules(passes, one.mesh, rules);
    CHECK(wrong.empty());
    if (!wrong.empty()) FAIL_CHECK(wrong.front().pointer + ": " + wrong.front().text);
    const auto run_on = [&](const Mesh& mesh, const LayoutRules& its) {
      return run_plan(balance(one.step, mesh, its, {}, {.dtype = DType::f64}));
    };
    CHECK(difference(run_on(one.mesh, rules), run_on(mesh_of({{"a", 1}}), {})) <= 1e-11);
  }
}

TEST_CASE("an automatic layout is predicted no slower than the uniform ones, and its rules give it again", "[law]") {
  for (unsigned number = 0; number < share_of(6U); number++) {  // a small network first, for runs of a few cases
    const Chosen one = random_network(number + 501);
    Random random(number);
    const Profile profile = testing::random_profile(one.mesh, random);
    const LayoutRules open = LayoutRules::automatic();
    const Plan plan = balance(one.step, one.mesh, open, profile, {.baselines = false});
    const double chosen = plan.data().step_seconds.value();
    INFO("case " << number);
    const Passes passes = passes_for(one.step, open);
    const LayoutChoices choices(passes, one.mesh, open);
    for (const std::vector<int>& uniform : choices.uniform())
      for (const Weights weights : {Weights::as_chosen, Weights::as_is_cheaper}) {
        const LayoutRules rules = choices.rules(uniform, weights);
        if (!check_rules(passes, one.mesh, rules).empty() || check_layouts(passes, one.mesh, rules)) continue;
        CHECK(chosen <= *balance(one.step, one.mesh, rules, profile, {.baselines = false}).data().step_seconds * 1.01);
      }
    const Plan again = balance(one.step, one.mesh, plan.data().rules, profile, {.baselines = false});
    CHECK(again.data().step_seconds == plan.data().step_seconds);
    CHECK(again.data().rules == plan.data().rules);
    for (int r = 0; r < one.mesh.ranks(); r++) CHECK(kernels_as_run(again.data(), r) == kernels_as_run(plan.data(), r));
  }
}

// Few weights and large images, then many weights and few activations: no rule for the first, whose passes the planner shares by
// samples; the others by what they make or read.
TEST_CASE("layers get unlike layouts where that is faster") {
  Graph g;
  const Dim batch{"batch", 32}, classes{"classes", 10};
  Tensor h = g.input("image", {batch, {"in", 3}, {"rows", 128}, {"cols", 128}});
  for (const std::string f : {"f0", "f1"}) h = relu(conv2d(h, {.out = {f, 8}, .window = 3, .padding = same}));
  h = max_pool2d(h, {.window = 32});
  for (const std::string d : {"d0", "d1"}) h = relu(dense(h, {.out = {Dim{d, 4096}}}));
  h = dense(h, {.out = {classes}});
  const Step step =
      training(mean(softmax_cross_entropy(h, g.input("label", {batch}, DType::i32), classes)), Sgd{.learning_rate = 0.1});
  const Mesh mesh = mesh_of({{"a", 2}}, 2);
  const Profile profile = testing::synthetic_profile(mesh, {1, 0.8}, 2e8);
  const LayoutRules open = LayoutRules::automatic();
  const Plan plan = balance(step, mesh, open, profile, {.baselines = false});
  for (const LayoutRules& rules : layouts_to_measure(step, mesh, open))
    CHECK(*plan.data().step_seconds < *balance(step, mesh, rules, profile, {.baselines = false}).data().step_seconds);
  const auto cut_of = [&](const std::string& layer) {
    const auto& cuts = plan.data().tensors[static_cast<std::size_t>(plan.data().passes.find(layer))].layout.cuts;
    return cuts.empty() ? std::string("none") : cuts.begin()->first;
  };
  CHECK(cut_of("conv2d_3") == "none");
  CHECK(cut_of("dense_6") == "d0");
  const std::vector<LayerChoice>& said = plan.data().layout;
  REQUIRE(said.size() == 5);
  CHECK(said.front().layers == "conv2d_1 to relu_2");
  CHECK(said.front().cut == "not cut");
  for (const LayerChoice& one : said) {
    CHECK(!one.next_best.empty());
    CHECK(one.next_best != one.cut);
    CHECK(one.next_best_seconds.value_or(0) >= *plan.data().step_seconds);
  }
  CHECK(plan.table().starts_with("layout, chosen"));
  const Folder folder("motley-layout");
  const Plan read = Plan::load(folder.write("plan.json", plan.json()), step, mesh);
  REQUIRE(read.data().layout.size() == said.size());
  CHECK(read.data().layout.back().next_best_seconds == said.back().next_best_seconds);
}

TEST_CASE("what is said restricts what is chosen") {
  Graph g;
  const Dim batch{"batch", 32}, f{"f", 64}, hidden{"hidden", 256}, classes{"classes", 10};
  Tensor h = g.input("image", {batch, {"in", 3}, {"rows", 16}, {"cols", 16}});
  h = relu(conv2d(h, {.out = f, .window = 3, .padding = same, .name = "c"}));
  h = relu(dense(h, {.out = {hidden}, .name = "d"}));
  h = dense(h, {.out = {classes}, .name = "e"});
  const Step step =
      training(mean(softmax_cross_entropy(h, g.input("label", {batch}, DType::i32), classes)), Sgd{.learning_rate = 0.1});
  const Mesh mesh = mesh_of({{"a", 2}});
  const Profile profile = testing::synthetic_profile(mesh, {1, 0.5}, 1e9);
  const auto layout_of = [&](const LayoutRules& rules, const std::string& tensor) {
    const PlanData plan = balance(step, mesh, rules, profile, {.baselines = false}).data();
    const auto& cuts = plan.tensors[static_cast<std::size_t>(plan.passes.find(tensor))].layout.cuts;
    return cuts.empty() ? std::string("none") : cuts.begin()->first;
  };
  LayoutRules rules = LayoutRules::automatic();
  rules.tensor("c", {{"f", "a"}});
  CHECK(layout_of(rules, "c") == "f");
  rules.tensor("c", {{"batch", "a"}});
  CHECK(layout_of(rules, "c") == "batch");
  LayoutRules one;
  one.open.layers = {"d"};
  CHECK(layout_of(one, "c") == "none");
  LayoutRules dim{{batch, "a"}};
  dim.open.dims = {"hidden"};
  CHECK(layout_of(dim, "c") == "batch");
  const std::string of_d = layout_of(dim, "d");
  CHECK((of_d == "batch" || of_d == "hidden"));
}
