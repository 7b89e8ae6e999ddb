// SPDX-License-Identifier: Apache-2.0
// Several Programs run on one State: plans of other batches, cuts, picks and mesh axes compute what the unsharded network does with
// the same parameters, and disturb no training.
#include <motley/error.h>
#include <motley/predictor.h>
#include <motley/trainer.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <mutex>
#include <optional>

#include "plan/plan_data.h"
#include "tests/support/random_feeds.h"
#include "tests/support/random_network.h"
#include "tests/support/shrink.h"

using namespace motley;
using namespace motley::law;

namespace {

constexpr int kTrained = 2;  // steps before the predictions

struct Planned {
  Network net;
  Plan plan;
};

// Nothing: the rules do not go together.
std::optional<Planned> planned(Random& random, const Recipe& recipe, int ranks, const Plan* trained) {
  Case one{recipe, axes_of(random, ranks), {}, 0};
  Network net = build(recipe);
  one.cuts = random_cuts(random, net, one.axes, {.often = 0.4, .spatial = 0.3, .nested = 0.1, .jagged = 0.15});
  LayoutRules rules = rules_of(one, net);
  const Step step = trained == nullptr ? training(net.loss, Sgd{.learning_rate = 0.05, .momentum = 0.9}) : inference({net.logits});
  if (trained != nullptr) rules.homes = trained->homes();
  try {
    const auto number = static_cast<unsigned>(random());
    Plan plan = chance(random, 0.5)
                    ? with_random_picks(step, mesh_of(one.axes), rules, number, DType::f64, random_ownership(number))
                    : balance(step, mesh_of(one.axes), rules, {}, {.dtype = DType::f64});
    return Planned{std::move(net), std::move(plan)};
  } catch (const UserError& e) {
    REQUIRE(std::string(e.what()).find("cannot both be cut") != std::string::npos);
    return std::nullopt;
  }
}

std::vector<double> unsharded(const Network& net, const std::map<std::string, std::vector<double>>& parameters, Index number) {
  const Plan plan = balance(inference({net.logits}), mesh_of({{"one", 1}}), {}, {}, {.dtype = DType::f64});
  std::vector<double> out;
  run_ranks_in_memory(1, [&](Runtime& rt) {
    State state(plan, 0, 1);
    for (const auto& [name, values] : parameters) state.set(name, values);
    Predictor predictor(rt, plan, state);
    predictor.run_named(feeds_of(net, number, false));
    out = predictor.get(net.logits);
  });
  return out;
}

double apart(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return HUGE_VAL;
  double most = 0, worst = 0;
  for (std::size_t i = 0; i < a.size(); i++) {
    most = std::max(most, std::abs(b[i]));
    worst = std::max(worst, std::abs(a[i] - b[i]));
  }
  return most < 1e-30 ? worst : worst / most;
}

std::vector<double> losses_of(Trainer& trainer, const Network& net, int first, int steps) {
  std::vector<double> out;
  for (int s = 0; s < steps; s++) out.push_back(trainer.step_named(feeds_of(net, first + s, true)).loss);
  return out;
}

}  // namespace

TEST_CASE("state law: predictions under other batches, cuts and axes equal the unsharded network", "[law]") {
  int compared = 0;
  for (int number = 0; number < share_of(80); number++) {
    INFO("case " << number);
    Random random(static_cast<unsigned>(61000 + number));
    const Recipe recipe = number % 2 == 0 ? random_recipe(random) : with_norms(random_recipe(random), random);
    const int ranks = static_cast<int>(pick(random, 1, 4));
    const auto trained = planned(random, recipe, ranks, nullptr);
    if (!trained) continue;
    std::vector<Planned> others;
    for (int k = 0; k < 3; k++) {
      Recipe other = recipe;
      other.batch = pick(random, 1, 7);
      if (auto made = planned(random, other, ranks, &trained->plan)) others.push_back(std::move(*made));
    }
    std::vector<double> alone;
    run_ranks_in_memory(ranks, [&](Runtime& rt) {
      Trainer trainer(rt, trained->plan);
      auto losses = losses_of(trainer, trained->net, 0, kTrained + 1);
      if (rt.rank() == 0) alone = std::move(losses);
    });
    std::map<std::string, std::vector<double>> parameters;
    std::vector<std::vector<double>> predicted(others.size());
    std::vector<double> losses;
    run_ranks_in_memory(ranks, [&](Runtime& rt) {
      Trainer trainer(rt, trained->plan);
      auto all = losses_of(trainer, trained->net, 0, kTrained);
      for (std::size_t k = 0; k < others.size(); k++) {
        Predictor predictor(rt, others[k].plan, trainer.state());
        const Ran ran = predictor.run_named(feeds_of(others[k].net, 90 + static_cast<Index>(k), false));
        if (ran.bytes_received != others[k].plan.data().predicted[static_cast<std::size_t>(rt.rank())].bytes)
          throw InternalError("counted other bytes than planned");
        auto logits = predictor.get(others[k].net.logits);
        if (rt.rank() == 0) predicted[k] = std::move(logits);
      }
      for (const std::string& name : trainer.state().names()) {
        auto values = trainer.state().get(rt.transport(), name);
        if (rt.rank() == 0) parameters[name] = std::move(values);
      }
      all.push_back(losses_of(trainer, trained->net, kTrained, 1).front());
      if (rt.rank() == 0) losses = std::move(all);
    });
    CHECK(losses == alone);
    for (std::size_t k = 0; k < others.size(); k++) {
      CHECK(others[k].plan.homes() == trained->plan.homes());
      CHECK(apart(predicted[k], unsharded(others[k].net, parameters, 90 + static_cast<Index>(k))) < 1e-11);
      compared++;
    }
  }
  CHECK(compared > when_all(120));
}

TEST_CASE("state law: a plan that stores parameters elsewhere is refused", "[law]") {
  Random random(7);
  const Recipe recipe = random_recipe(random);
  const Network net = build(recipe);
  const Mesh mesh = mesh_of({{"a", 2}});
  const Step step = training(net.loss, Sgd{});
  const Plan plan = balance(step, mesh, {{"classes", "a", Shares{{1, 0}}}}, {}, {.dtype = DType::f64});
  const Plan other = balance(inference({net.logits}), mesh, {{"classes", "a", Shares{{0, 1}}}}, {}, {.dtype = DType::f64});
  const Plan narrow = balance(inference({net.logits}), mesh, {{"classes", "a", Shares{{1, 0}}}}, {});
  std::vector<std::string> errors(2);
  std::mutex lock;
  int refusals = 0;
  auto refused = [&](Runtime& rt, const Plan& its, std::string& error) {
    Trainer trainer(rt, plan);
    try {
      Predictor(rt, its, trainer.state());
    } catch (const UserError& e) {  // every rank, so that all can go on
      const std::lock_guard hold(lock);
      error = e.what();
      refusals++;
    }
  };
  run_ranks_in_memory(2, [&](Runtime& rt) { refused(rt, other, errors[0]); });
  run_ranks_in_memory(2, [&](Runtime& rt) { refused(rt, narrow, errors[1]); });
  CHECK(refusals == 4);
  CHECK_THAT(errors[0], Catch::Contains("rules.homes = the homes() of the plan"));
  CHECK_THAT(errors[1], Catch::Contains("the State is in f64, this plan in f32"));
  LayoutRules rules;
  rules.homes = plan.homes();
  const Box empty(rules.homes.begin()->second.front().box.size());
  rules.homes.begin()->second.push_back({1, empty});
  CHECK_THROWS_WITH(balance(inference({net.logits}), mesh, rules, {}), Catch::Contains("hold each element of"));
  rules.homes.begin()->second.pop_back();
  rules.homes.begin()->second.pop_back();
  CHECK_THROWS_WITH(balance(inference({net.logits}), mesh, rules, {}), Catch::Contains("hold each element of"));
}
