// SPDX-License-Identifier: Apache-2.0
// Initial values law: what parameters start from depends on the seed, their names and the network alone: not on mesh, cuts, places,
// overrides, storage or micro-batches.
#include <motley/error.h>
#include <motley/state.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "base/box_rows.h"
#include "base/copy_box.h"
#include "plan/plan_data.h"
#include "tests/support/random_network.h"

using namespace motley;
using namespace motley::law;

namespace {

using Values = std::map<std::string, std::vector<double>>;

Values initial_values(const Plan& plan) {
  Values out;
  for (const int p : plan.data().passes.parameters) {
    const StepTensor& t = plan.data().passes.tensors[static_cast<std::size_t>(p)];
    out[t.name].resize(static_cast<std::size_t>(t.shape.elements()), NAN);
  }
  for (int rank = 0; rank < plan.mesh().ranks(); rank++) {
    const State state(plan, rank, 3);
    for (const StateEntry& e : state.entries())
      for (const BoxValues& its : e.slot.empty() ? state.shard(e.name) : std::vector<BoxValues>{}) {
        const std::vector<Index> strides = row_major(whole(e.shape));
        double* const to = out[e.name].data() + item_of(whole(e.shape), strides, its.box);
        for_each_row(extents_of(its.box), row_major(its.box), strides, [&](const BoxRow& row) {
          for (Index i = 0; i < row.length; i++)
            to[row.b + i * row.b_step] = its.values[static_cast<std::size_t>(row.a + i * row.a_step)];
        });
      }
  }
  return out;
}

// Entries that say nothing for some of the step's layers and tensors: plans keep what is named.
void name_some(Random& random, const Step& step, LayoutRules& rules) {
  for (const StepTensor& t : step.passes().tensors) {
    if (t.layer.empty() || t.of >= 0 || !t.copy_of.empty()) continue;  // laid out like their tensors
    if (chance(random, 0.3)) rules.tensor(chance(random, 0.5) ? t.layer : t.name, {});
  }
}

const Dim kBatch{"batch", 4}, kIn{"in", 5}, kOut{"out", 3}, kHidden{"hidden", 6};

struct Constants {
  Graph graph{};
  Tensor loss{};
  Tensor image = graph.input("image", {kBatch, kIn});
  Tensor label = graph.input("label", {kBatch}, DType::i32);
  Tensor constant(const char* name, const Shape& shape) {
    return graph.parameter(shape, {.initial = InitialWeights::he_uniform, .name = name});
  }
  void end(const Tensor& logits) { loss = mean(softmax_cross_entropy(logits, label, kOut)); }
};

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double v : values) most = std::max(most, std::abs(v));
  return most;
}

}  // namespace

TEST_CASE("initial values law: random networks, cuts and entries for tensors", "[law]") {
  int compared = 0;
  for (int number = 0; number < share_of(60); number++) {
    INFO("case " << number);
    Random random(static_cast<unsigned>(97000 + number));
    const Recipe plain = random_recipe(random);
    const Recipe recipe = number % 3 == 0   ? with_norms(plain, random)
                          : number % 3 == 1 ? with_attention(with_groups(plain, random), random)
                                            : with_upsampling(with_products(plain, random), random);
    const Network net = number % 5 == 4 ? token_network(random) : build(recipe);
    const Values alone = initial_values(balance(training(net.loss, Sgd{}), mesh_of({{"one", 1}}), {}, {}, {.dtype = DType::f64}));
    Case one{recipe, {{"a", static_cast<int>(pick(random, 1, 2))}, {"b", static_cast<int>(pick(random, 1, 2))}}, {}, 0};
    if (number % 5 != 4) one.cuts = random_cuts(random, net, one.axes, {});
    const Step step = training(net.loss, Adam{}, {.storage = chance(random, 0.3) ? DType::bf16 : DType::f32});
    LayoutRules rules = rules_of(one, net);
    name_some(random, step, rules);
    try {
      const Plan plan = balance(step, mesh_of(one.axes), rules, {}, {.dtype = DType::f64});
      CHECK(initial_values(plan) == alone);
      compared++;
    } catch (const UserError& e) {
      INFO(e.what());
      REQUIRE(std::string(e.what()).find("cannot both be cut") != std::string::npos);
    }
  }
  CHECK(compared > when_all(30));
}

TEST_CASE("initial values law: the fan-in of a learned constant is that of the first product that reads it", "[law]") {
  const auto with = [](const auto& make) {
    Constants net;
    net.end(make(net));
    const Step step = training(net.loss, Sgd{});
    const Values alone = initial_values(balance(step, mesh_of({{"one", 1}}), {}, {}, {.dtype = DType::f64}));
    Random random(5);
    for (int k = 0; k < 8; k++) {
      LayoutRules rules;
      name_some(random, step, rules);
      if (k % 2 == 1) rules.tensor("p", {{kIn, "a", Sizes{{2, 3}}}});
      if (k % 4 == 3) rules.place("p", {"rank 1"});
      if (k % 4 == 3) rules.tensors.erase("p");
      CHECK(initial_values(balance(step, mesh_of({{"a", 2}}), rules, {}, {.dtype = DType::f64})) == alone);
    }
    return largest(alone.at("p.weight"));
  };
  const double most = std::sqrt(6.0 / 5);  // by a fan-in of 5; values of 1 go to sqrt(6)
  const auto is_five = [&](double value) { return value <= most && value > 0.6 * most; };
  CHECK(is_five(with([](Constants& n) { return matmul(n.image, n.constant("p", {kOut, kIn}), {.over = {kIn}}); })));
  CHECK(is_five(with([](Constants& n) { return matmul(n.image, n.constant("p", {kIn, kOut}), {.over = {kIn}}); })));
  CHECK(is_five(with([](Constants& n) {
    return transpose(matmul(n.constant("p", {kOut, kIn}), n.image, {.over = {kIn}}), {kBatch, kOut});
  })));
  CHECK(is_five(with([](Constants& n) {
    return matmul(n.image, transpose(n.constant("p", {kIn, kOut}), {kOut, kIn}), {.over = {kIn}});
  })));
  // One that is added is in no product; nor is the sum.
  const double added = with([](Constants& n) { return dense(add(n.image, n.constant("p", {kIn})), {.in = {kIn}, .out = {kOut}}); });
  CHECK(added <= std::sqrt(6.0));
  CHECK(added > most);
}
